package effecttarget_test

import (
	"context"
	"sync"

	"github.com/cccgo/ccc/consistency"
)

// values is a store of values that only move forward.
type values struct {
	mu     sync.Mutex
	values map[string]valueAt
	loose  bool // it does not compare positions
	writes int
}

type valueAt struct {
	at      consistency.Position
	value   string
	deleted bool
}

func newValues() *values { return &values{values: map[string]valueAt{}} }

func (v *values) Upsert(_ context.Context, key string, at consistency.Position, value string) error {
	v.set(key, valueAt{at: at, value: value})
	return nil
}

func (v *values) Delete(_ context.Context, key string, at consistency.Position) error {
	v.set(key, valueAt{at: at, deleted: true})
	return nil
}

func (v *values) set(key string, is valueAt) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.loose || is.at.After(v.values[key].at) {
		v.values[key] = is
		v.writes++
	}
}

func (v *values) get(key string) (string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	is, ok := v.values[key]
	return is.value, ok && !is.deleted
}
