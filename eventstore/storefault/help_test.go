package storefault_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is a wrapped store and what is needed to see through it.
type bed struct {
	*storefault.Store
	t     *testing.T
	inner *memstore.Store
}

func newBed(t *testing.T, cfg storefault.Config) *bed {
	inner := memstore.New()
	b := &bed{Store: storefault.New(inner, cfg), t: t, inner: inner}
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func guard(id string) []consistency.Observation {
	return []consistency.Observation{{Query: consistency.Where("commandId", id)}}
}

func one(id string) []event.Record {
	data, _ := json.Marshal(map[string]string{"commandId": id})
	return []event.Record{{ID: uuid.New(), Type: "T", Data: data}}
}

// save appends one event under the guard of its id.
func (b *bed) save(ctx context.Context, id string) error {
	_, err := b.Append(ctx, one(id), guard(id))
	return err
}

// stored returns how many events with this id the log really holds.
func (b *bed) stored(id string) int {
	b.t.Helper()
	results, err := b.inner.Snapshot(context.Background(), eventstore.Part{Query: consistency.Where("commandId", id)})
	require.NoError(b.t, err)
	return len(results[0].Records)
}

func (b *bed) kind(want eventstore.Kind, err error) {
	b.t.Helper()
	require.Equal(b.t, want, eventstore.KindOf(err), "%v", err)
}
