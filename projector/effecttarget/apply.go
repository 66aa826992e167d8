package effecttarget

import (
	"context"
	"fmt"

	"github.com/cccgo/ccc/projector"
)

// Apply implements [projector.Target], as far as there can be no transaction:
// see the package's documentation. What work did is kept also when ctx has ended
// meanwhile.
func (t *core[Tx]) Apply(ctx context.Context, claim projector.Claim, from projector.Checkpoint,
	work func(projector.Batch[Tx]) (projector.Checkpoint, error),
) error {
	c, leave, err := t.enter(ctx, claim.Name)
	if err != nil {
		return failure("apply", claim.Name, err)
	}
	defer leave()
	done, err := c.takeTurn(ctx, claim)
	if err != nil {
		return failure("apply", claim.Name, err)
	}
	defer done()
	return t.run(ctx, c, claim, &from, work)
}

// Lane implements [projector.LaneTarget]: what Apply says holds for it.
func (t *core[Tx]) Lane(ctx context.Context, claim projector.Claim, work func(projector.Batch[Tx]) error) error {
	c, leave, err := t.enter(ctx, claim.Name)
	if err != nil {
		return failure("lane of", claim.Name, err)
	}
	defer leave()
	return t.run(ctx, c, claim, nil, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		return projector.Checkpoint{}, work(b)
	})
}

// run is a batch; without from one that leaves the checkpoint alone.
func (t *core[Tx]) run(ctx context.Context, c *cell, claim projector.Claim, from *projector.Checkpoint,
	work func(projector.Batch[Tx]) (projector.Checkpoint, error),
) error {
	doing := "apply"
	if from == nil {
		doing = "lane of"
	}
	b := &batch[Tx]{ctx: ctx, cell: c, claim: claim, lane: from == nil, durable: t.durable, tx: t.begin(ctx, claim)}
	err := c.view(ctx, claim, func(d *document) error {
		b.ops = ops{epoch: claim.Epoch, asked: d.asked}
		if from == nil {
			return nil
		}
		return d.at(claim, *from)
	})
	if err != nil {
		return failure(doing, claim.Name, err)
	}
	defer c.enter()()
	point, err := work(b)
	if err != nil {
		return err // as it is: what was not kept by Done is dropped
	}
	if err := t.effects(b); err != nil {
		return failure(doing, claim.Name, err)
	}
	if from == nil {
		return failure(doing, claim.Name, b.end(nil, nil))
	}
	return failure(doing, claim.Name, b.end(from, &point))
}

// effects makes those that wait for the end of the batch, if it still may.
func (t *core[Tx]) effects(b *batch[Tx]) error {
	if t.finish == nil {
		return nil
	}
	if err := b.view(func(*document) error { return nil }); err != nil {
		return err
	}
	if err := t.finish(b.ctx, b.tx); err != nil {
		return fmt.Errorf("the checkpoint stays: %w", err)
	}
	return nil
}

// takeTurn lets one Apply of a claim in at a time, so that of those that begin at
// one checkpoint only one does its work. A worker that stands still in one holds
// up no newer claim.
func (c *cell) takeTurn(ctx context.Context, claim projector.Claim) (done func(), err error) {
	c.mu.Lock()
	if claim.Epoch > c.turnEpoch || c.turn == nil {
		c.turn, c.turnEpoch = make(chan struct{}, 1), claim.Epoch
	}
	turn := c.turn
	if claim.Epoch < c.turnEpoch {
		turn = make(chan struct{}, 1) // it will be refused
	}
	c.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
