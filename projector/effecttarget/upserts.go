package effecttarget

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

// Store is where the values of [Upserts] are: a search index, a cache, a table
// of another program. Values only move forward: both methods do nothing, without
// an error, where what is stored under the key carries the same position or a
// later one. That comparison and the write have to be one step of the store,
// because a worker that stood still may wake up and write at any time. What is
// written is durable before they return nil. They may be called by several
// goroutines at once, and after any error they are called again.
type Store[V any] interface {
	// Upsert sets the value of a key and its position.
	Upsert(ctx context.Context, key string, at consistency.Position, value V) error
	// Delete leaves a tombstone: no value, but the position. It has to stay, or
	// a late Upsert brings the value back. What is far older than any worker can
	// be late may be removed.
	Delete(ctx context.Context, key string, at consistency.Position) error
}

// Upserts is for values that an event sets as a whole. Make it with [NewUpserts].
// Its methods may be called by any number of goroutines.
//
// It promises to converge: see the package's documentation.
type Upserts[V any] struct{ *core[*UpsertTx[V]] }

// NewUpserts makes a target for the values of a store. Close it after its
// projectors have ended.
func NewUpserts[V any](k Keeper, s Store[V], c Config) *Upserts[V] {
	t := newCore[*UpsertTx[V]](k, c)
	t.begin = func(context.Context, projector.Claim) *UpsertTx[V] { return &UpsertTx[V]{map[string]upsert[V]{}} }
	t.finish = func(ctx context.Context, x *UpsertTx[V]) error { return x.write(ctx, s) }
	return &Upserts[V]{t}
}

// Promise implements [projector.Target].
func (*Upserts[V]) Promise() projector.Promise { return projector.Converges }

// UpsertTx collects what the handlers of a batch put. It is written at the end
// of the batch, before the checkpoint moves: the last of each key. So nothing is
// written of a handler that fails. It is for one goroutine.
type UpsertTx[V any] struct{ wrote map[string]upsert[V] }

type upsert[V any] struct {
	at      consistency.Position
	value   V
	deleted bool
}

// Put sets a value, as of the event that is delivered. An event's second Put of
// a key takes the place of the first; one of an earlier event, that was parked,
// never that of a later one.
func (x *UpsertTx[V]) Put(d projector.Delivery, key string, value V) {
	x.set(key, upsert[V]{at: d.Position, value: value})
}

// Delete removes a value, as of the event that is delivered.
func (x *UpsertTx[V]) Delete(d projector.Delivery, key string) {
	x.set(key, upsert[V]{at: d.Position, deleted: true})
}

func (x *UpsertTx[V]) set(key string, u upsert[V]) {
	if was, ok := x.wrote[key]; !ok || !was.at.After(u.at) {
		x.wrote[key] = u
	}
}

func (x *UpsertTx[V]) write(ctx context.Context, s Store[V]) error {
	for _, key := range slices.Sorted(maps.Keys(x.wrote)) {
		u := x.wrote[key]
		var err error
		if u.deleted {
			err = s.Delete(ctx, key, u.at)
		} else {
			err = s.Upsert(ctx, key, u.at, u.value)
		}
		if err != nil {
			return fmt.Errorf("write %.80q at %s: %w", key, u.at, err)
		}
	}
	return nil
}
