package memtarget

import (
	"context"
	"fmt"

	"github.com/cccgo/ccc/projector"
)

// Apply implements [projector.Target]. It waits for the Apply of other names,
// not for lanes; ctx ends that wait, and a commit that has not begun.
func (h *handle[V]) Apply(ctx context.Context, claim projector.Claim, from projector.Checkpoint,
	work func(projector.Batch[*Tx[V]]) (projector.Checkpoint, error),
) error {
	h.family.mu.Lock()
	err := h.usable(ctx, "apply", claim.Name)
	m := h.model()
	h.family.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return noCommit(ctx, claim)
	case m.writer <- struct{}{}:
	}
	check := func(o *owned[V]) error { return o.at(claim, from) }
	b, err := h.begin(m, claim, true, check)
	if err != nil {
		return err
	}
	defer b.finish() // also when work panics
	to, err := work(b)
	if err != nil {
		return b.failed(claim, err)
	}
	if from.Position.After(to.Position) {
		return fmt.Errorf("memtarget: apply %s: nothing written: the checkpoint would go back from %s to %s",
			claim.Name, from.Position, to.Position)
	}
	return b.commit(ctx, claim, check, func(o *owned[V]) { o.moveTo(to) })
}

// Lane implements [projector.LaneTarget].
func (h *handle[V]) Lane(ctx context.Context, claim projector.Claim, work func(projector.Batch[*Tx[V]]) error) error {
	h.family.mu.Lock()
	err := h.usable(ctx, "apply in a lane of", claim.Name)
	m := h.model()
	h.family.mu.Unlock()
	if err != nil {
		return err
	}
	check := func(o *owned[V]) error { return o.ours(claim) }
	b, err := h.begin(m, claim, false, check)
	if err != nil {
		return err
	}
	defer b.finish()
	if err := work(b); err != nil {
		return b.failed(claim, err)
	}
	return b.commit(ctx, claim, check, func(*owned[V]) {})
}

func noCommit(ctx context.Context, claim projector.Claim) error {
	return fmt.Errorf("memtarget: apply %s: nothing written: %w", claim.Name, context.Cause(ctx))
}

// begin opens a transaction; with its turn, the caller has taken the writer's
// token, which is given back here if it cannot be opened.
func (h *handle[V]) begin(m *model[V], claim projector.Claim, turn bool, check func(*owned[V]) error) (*batch[V], error) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	x := &Tx[V]{family: h.family, model: m, owned: m.of(claim.Name), wrote: map[string]value[V]{}, turn: turn}
	x.reads.values = map[string]struct{}{}
	m.running[x] = struct{}{}
	if err := check(x.owned); err != nil {
		m.end(x)
		return nil, err
	}
	return &batch[V]{tx: x}, nil
}

// commit does it all in one step, as soon as no switch holds commits up.
func (b *batch[V]) commit(ctx context.Context, claim projector.Claim, check func(*owned[V]) error, move func(*owned[V])) error {
	x := b.tx
	x.family.mu.Lock()
	defer x.family.mu.Unlock()
	for held := x.model.held; held != nil; held = x.model.held {
		x.family.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		x.family.mu.Lock()
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return noCommit(ctx, claim)
	}
	if err := check(x.owned); err != nil {
		return err
	}
	if err := x.collided(claim); err != nil {
		return err
	}
	b.clashes()
	write(x.model.values, x.wrote)
	b.keep(x.owned)
	move(x.owned)
	x.owned.wake()
	return nil
}

// failed is the error of a transaction whose work failed, perhaps at what was out
// of date.
func (b *batch[V]) failed(claim projector.Claim, err error) error {
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	if collided := b.tx.collided(claim); collided != nil {
		return collided
	}
	return err
}

func (b *batch[V]) finish() {
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	b.tx.model.end(b.tx)
}

// end ends a transaction, once, and gives the writer's token back.
func (m *model[V]) end(x *Tx[V]) {
	if x.over {
		return
	}
	x.over = true
	delete(m.running, x)
	if x.turn {
		<-m.writer
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
