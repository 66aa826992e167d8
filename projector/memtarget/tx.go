package memtarget

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// Tx is what a handler reads and writes the model with. It ends with its batch,
// and is for one goroutine.
type Tx[V any] struct {
	target *Target[V]
	over   bool                // guarded by target.mu: the writer's token is given back
	wrote  map[string]value[V] // on top of what is committed
}

type value[V any] struct {
	is      V
	deleted bool
}

// Get reads a value as this transaction sees it. A value that holds a map,
// slice or pointer is shared with the model: put a changed copy.
func (x *Tx[V]) Get(key string) (V, bool) {
	if v, ok := x.wrote[key]; ok {
		return v.is, !v.deleted
	}
	return x.target.Get(key)
}

// Put sets a value.
func (x *Tx[V]) Put(key string, v V) { x.wrote[key] = value[V]{is: v} }

// Delete removes a value; one that is not there is no matter.
func (x *Tx[V]) Delete(key string) { x.wrote[key] = value[V]{deleted: true} }

// All walks over the values as this transaction sees them when the walk
// begins, by key.
func (x *Tx[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		x.target.mu.Lock()
		values := maps.Clone(x.target.values)
		x.target.mu.Unlock()
		x.write(values)
		walk(values, yield)
	}
}

func (x *Tx[V]) write(values map[string]V) {
	for key, v := range x.wrote {
		if v.deleted {
			delete(values, key)
		} else {
			values[key] = v.is
		}
	}
}

// batch implements [projector.Batch].
type batch[V any] struct {
	tx    *Tx[V]
	owned *owned[V]
	done  map[uuid.UUID]struct{} // marked by this batch
}

func (b *batch[V]) Tx() *Tx[V] { return b.tx }

func (b *batch[V]) Seen(id uuid.UUID) (bool, error) {
	if _, ok := b.done[id]; ok {
		return true, nil
	}
	b.tx.target.mu.Lock()
	defer b.tx.target.mu.Unlock()
	_, ok := b.owned.done[id]
	return ok, nil
}

func (b *batch[V]) Done(id uuid.UUID) error {
	b.done[id] = struct{}{}
	return nil
}

// Apply implements [projector.Target]. It waits for the transactions of other
// names; ctx ends that wait, and a commit that has not begun.
func (t *Target[V]) Apply(ctx context.Context, claim projector.Claim, from projector.Checkpoint,
	work func(projector.Batch[*Tx[V]]) (projector.Checkpoint, error),
) error {
	ended := func() error {
		return fmt.Errorf("memtarget: apply %s: nothing written: %w", claim.Name, context.Cause(ctx))
	}
	if ctx.Err() != nil {
		return ended()
	}
	select {
	case <-ctx.Done():
		return ended()
	case t.writer <- struct{}{}:
	}
	b := &batch[V]{tx: &Tx[V]{target: t, wrote: map[string]value[V]{}}, done: map[uuid.UUID]struct{}{}}
	if err := t.begin(b, claim, from); err != nil {
		return err
	}
	defer t.finish(b) // also when work panics
	to, err := work(b)
	if err != nil {
		return err
	}
	if from.Position.After(to.Position) {
		return fmt.Errorf("memtarget: apply %s: nothing written: the checkpoint would go back from %s to %s",
			claim.Name, from.Position, to.Position)
	}
	if ctx.Err() != nil {
		return ended()
	}
	return t.commit(b, claim, from, to)
}

func (t *Target[V]) begin(b *batch[V], claim projector.Claim, from projector.Checkpoint) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	b.owned = t.of(claim.Name)
	if err := b.owned.at(claim, from); err != nil {
		t.end(b.tx)
		return err
	}
	b.owned.running = b.tx
	return nil
}

func (t *Target[V]) commit(b *batch[V], claim projector.Claim, from, to projector.Checkpoint) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := b.owned
	if err := o.at(claim, from); err != nil {
		return err
	}
	b.tx.write(t.values)
	maps.Copy(o.done, b.done)
	o.checkpoint = to
	if !o.failure.Position.After(to.Position) {
		o.failure = projector.Failure{}
	}
	o.wake()
	return nil
}

func (t *Target[V]) finish(b *batch[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(b.tx)
	if b.owned.running == b.tx {
		b.owned.running = nil
	}
}

// end gives the writer's token back, once.
func (t *Target[V]) end(tx *Tx[V]) {
	if !tx.over {
		tx.over = true
		<-t.writer
	}
}

// at says whether the claim is good and the checkpoint is where its owner left it.
func (o *owned[V]) at(claim projector.Claim, from projector.Checkpoint) error {
	if err := o.ours(claim); err != nil {
		return err
	}
	if o.checkpoint != from {
		return fmt.Errorf("memtarget: %s: %w: the checkpoint is %s, not %s", claim.Name, projector.ErrTakenOver, o.checkpoint.Position, from.Position)
	}
	return nil
}
