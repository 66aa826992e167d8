package effecttarget_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/cccgo/ccc/projector/targettest"
)

type (
	tx       = *effecttarget.Tx
	upsertTx = *effecttarget.UpsertTx[string]
)

// world is what the effects of a case are made in: the suite runs them one after
// the other.
type world struct {
	mu      sync.Mutex
	name    string
	keepers map[string]effecttarget.Keeper
	keeper  func(name string) effecttarget.Keeper
	values  *values
	at      uint64
}

func newWorld(keeper func(name string) effecttarget.Keeper) *world {
	return &world{keeper: keeper, keepers: map[string]effecttarget.Keeper{}}
}

func (w *world) open(name string) effecttarget.Keeper {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.name != name {
		w.name, w.values = name, newValues()
	}
	if w.keepers[name] == nil {
		w.keepers[name] = w.keeper(name)
	}
	return w.keepers[name]
}

func memory(string) effecttarget.Keeper { return effecttarget.Memory() }

func files(t *testing.T) func(string) effecttarget.Keeper {
	dir := t.TempDir()
	return func(name string) effecttarget.Keeper { return effecttarget.File(filepath.Join(dir, name)) }
}

// next is a delivery for values that say nothing of their place.
func (w *world) next() projector.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at++
	return projector.Delivery{Record: event.Record{Position: consistency.NewPosition(0, w.at)}}
}

func effects(w *world, c effecttarget.Config) targettest.Subject[tx] {
	return targettest.Subject[tx]{
		Open:  func(name string) (projector.Target[tx], error) { return effecttarget.New(w.open(name), c), nil },
		Close: func(t projector.Target[tx]) error { return t.(*effecttarget.Target).Close() },
		Put: func(_ tx, key, value string) error {
			return w.values.Upsert(context.Background(), key, w.next().Position, value)
		},
		Get: func(_ tx, key string) (string, bool, error) { v, ok := w.values.get(key); return v, ok, nil },
		Read: func(_ projector.Target[tx], key string) (string, bool, error) {
			v, ok := w.values.get(key)
			return v, ok, nil
		},
		Freeze: func(t projector.Target[tx], n projector.Name) { t.(*effecttarget.Target).Freeze(n) },
	}
}

func upserts(w *world, c effecttarget.Config) targettest.Subject[upsertTx] {
	return targettest.Subject[upsertTx]{
		Open: func(name string) (projector.Target[upsertTx], error) {
			k := w.open(name)
			return effecttarget.NewUpserts(k, w.values, c), nil
		},
		Close: func(t projector.Target[upsertTx]) error { return t.(*effecttarget.Upserts[string]).Close() },
		Put:   func(x upsertTx, key, value string) error { x.Put(w.next(), key, value); return nil },
		Get: func(x upsertTx, key string) (string, bool, error) {
			if v, deleted, ok := x.Get(key); ok {
				return v, !deleted, nil
			}
			v, ok := w.values.get(key)
			return v, ok, nil
		},
		Read: func(_ projector.Target[upsertTx], key string) (string, bool, error) {
			v, ok := w.values.get(key)
			return v, ok, nil
		},
		Freeze: func(t projector.Target[upsertTx], n projector.Name) { t.(*effecttarget.Upserts[string]).Freeze(n) },
	}
}

var short = effecttarget.Config{Lease: 400 * time.Millisecond, LookEvery: 5 * time.Millisecond}

func TestEffectsInMemory(t *testing.T) {
	targettest.Run(t, targettest.Features{Durable: true, Shared: true, Virtual: true}, effects(newWorld(memory), effecttarget.Config{}))
}

func TestEffectsInFiles(t *testing.T) {
	targettest.Run(t, targettest.Features{Durable: true, Shared: true, Lease: short.Lease}, effects(newWorld(files(t)), short))
}

func TestUpsertsInMemory(t *testing.T) {
	targettest.Run(t, targettest.Features{Durable: true, Shared: true, Virtual: true}, upserts(newWorld(memory), effecttarget.Config{}))
}

func TestUpsertsInFiles(t *testing.T) {
	targettest.Run(t, targettest.Features{Durable: true, Shared: true, Lease: short.Lease}, upserts(newWorld(files(t)), short))
}
