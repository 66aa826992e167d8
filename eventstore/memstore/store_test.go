package memstore_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storetest"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCallersCannotChangeTheLog(t *testing.T) {
	s := memstore.New()
	data := json.RawMessage(`{"a":"1"}`)
	custom := map[string]string{"actor": "ada"}
	records := []event.Record{
		{ID: uuid.New(), Type: "T", Data: data, Metadata: event.Metadata{Custom: custom}},
		{ID: uuid.New(), Type: "T", Data: json.RawMessage(`{"a":"2"}`)},
	}
	_, err := s.Append(t.Context(), records, nil)
	require.NoError(t, err)

	copy(data, `{"a":"9"}`)
	custom["actor"] = "eve"
	records[0].Type = "U"
	read := snapshot(t, s)
	_ = append(read[0].Data, '!') // into the neighbour, if there were room
	read[1].Type = "V"

	read = snapshot(t, s)
	require.Equal(t, `{"a":"1"}`, string(read[0].Data))
	require.Equal(t, `{"a":"2"}`, string(read[1].Data))
	require.Equal(t, "ada", read[0].Metadata.Custom["actor"])
	require.Equal(t, []string{"T", "T"}, []string{read[0].Type, read[1].Type})
}

func snapshot(t *testing.T, s eventstore.Store) []event.Record {
	t.Helper()
	results, err := s.Snapshot(t.Context(), eventstore.Part{Query: consistency.All()})
	require.NoError(t, err)
	return results[0].Records
}

// The clock of a bubble moves only while all are blocked in a way that it can
// see: a Wait must be.
func TestWaitLetsTimeStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := memstore.New(), time.Now()
		woken := make(chan error, 2)
		for range 2 {
			go func() { woken <- s.Wait(t.Context(), consistency.Position{}) }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, s.Wait(ctx, consistency.Position{}), context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(began))

		_, err := s.Append(t.Context(), []event.Record{{ID: uuid.New(), Type: "T", Data: json.RawMessage(`{}`)}}, nil)
		require.NoError(t, err)
		require.NoError(t, <-woken)
		require.NoError(t, <-woken)
		require.Equal(t, time.Now().UTC(), snapshot(t, s)[0].Time)

		go func() { woken <- s.Wait(t.Context(), consistency.NewPosition(0, 1)) }()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-woken, eventstore.ErrClosed)
	})
}

func TestEachStoreIsALogOfItsOwn(t *testing.T) {
	require.NotEqual(t, memstore.New().Features().Log, memstore.New().Features().Log)
}

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Features{}, func(string) (eventstore.Store, error) { return memstore.New(), nil })
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	s := memstore.New()
	big := json.RawMessage(`{"big":"` + strings.Repeat("x", 1<<20-100) + `"}`)
	for range 7 {
		_, err := s.Append(t.Context(), []event.Record{{ID: uuid.New(), Type: "T", Data: big}}, nil)
		require.NoError(t, err)
	}
	page, err := s.Page(t.Context(), consistency.All(), consistency.Position{}, 100)
	require.NoError(t, err)
	require.Len(t, page.Records, 4)
	require.Equal(t, page.Records[3].Position, page.UpTo)
}
