package memtarget

import (
	"maps"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// batch implements [projector.Batch]. What it changes lies on top of what is
// committed, until it is committed itself.
type batch[V any] struct {
	tx               *Tx[V]
	done             map[uuid.UUID]consistency.Position
	forgot           consistency.Position
	parked           map[consistency.Position]*projector.Parked
	touched          map[string][]consistency.Position // keys of those, also of what was exchanged
	applied, skipped int
}

func (b *batch[V]) Tx() *Tx[V] { return b.tx }

func (b *batch[V]) Seen(id uuid.UUID) (bool, error) {
	if _, ok := b.done[id]; ok {
		return true, nil
	}
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	return b.marked(id), nil
}

// marked says whether a mark is committed. If none is, no other transaction must
// set it before this one ends.
func (b *batch[V]) marked(id uuid.UUID) bool {
	at, ok := b.tx.owned.done[id]
	if !ok {
		note(&b.tx.reads.marks, id)
	}
	return ok && at.After(b.forgot)
}

func (b *batch[V]) Done(id uuid.UUID, at consistency.Position) error {
	if b.done == nil {
		b.done = map[uuid.UUID]consistency.Position{}
	}
	b.done[id] = at
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	b.marked(id)
	return nil
}

func (b *batch[V]) Forget(upTo consistency.Position) error {
	forget(b.done, upTo)
	if upTo.After(b.forgot) {
		b.forgot = upTo
	}
	return nil
}

func forget(done map[uuid.UUID]consistency.Position, upTo consistency.Position) {
	maps.DeleteFunc(done, func(_ uuid.UUID, at consistency.Position) bool { return !at.After(upTo) })
}

func (b *batch[V]) Count(applied, skipped int) {
	b.applied += applied
	b.skipped += skipped
}

// keep commits all but the values. The family is locked.
func (b *batch[V]) keep(o *owned[V]) {
	if !b.forgot.IsZero() {
		forget(o.done, b.forgot)
	}
	maps.Copy(o.done, b.done)
	for _, p := range b.parked {
		o.parked.put(p)
	}
	if len(b.parked) > 0 {
		o.parked.measure()
	}
	o.applied += int64(b.applied)
	o.skipped += int64(b.skipped)
}

func (o *owned[V]) moveTo(to projector.Checkpoint) {
	if o.checkpoint != to {
		o.checkpoint, o.moved = to, micro(time.Now())
	}
	if !o.failure.Position.After(to.Position) {
		o.failure = projector.Failure{}
	}
}
