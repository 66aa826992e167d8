package effecttarget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cccgo/ccc/projector"
)

// flush keeps what the batch did; with to, at its end, the checkpoint too.
// Neither the end of the batch's context nor that of the projector's Run stops
// it: the effects are there already.
func (b *batch[Tx]) flush(from, to *projector.Checkpoint) error {
	if b.broken != nil {
		return b.broken
	}
	o := b.ops
	b.ops = ops{epoch: o.epoch, asked: o.asked}
	b.over = nil
	ch := &change{batch: true, do: func(d *document, now time.Time) (bool, error) {
		if err := d.ours(b.claim); err != nil {
			return false, err
		}
		if to == nil {
			// In a lane another one may have done the same event meanwhile. What
			// comes with forgetting are this batch's own marks once more.
			if id, there := d.marks.any(o.marks); there && b.lane && o.forgot.IsZero() {
				return false, fmt.Errorf("%w: event %s was done meanwhile", projector.ErrCollided, id)
			}
			return d.do(&o, now), nil
		}
		if err := d.at(b.claim, *from); err != nil {
			return false, err
		}
		changed := d.do(&o, now)
		return d.move(*to, now) || changed, nil
	}}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 2*saveLimit)
	defer cancel()
	err := b.cell.submit(ctx, ch)
	if err != nil {
		b.broken = err
		if o.owed() && !errors.Is(err, projector.ErrTakenOver) && !errors.Is(err, projector.ErrCollided) {
			b.cell.owe(&o)
		}
	}
	return err
}

// end is the flush at the end of a batch.
func (b *batch[Tx]) end(from, to *projector.Checkpoint) error {
	if to != nil && from.Position.After(to.Position) {
		return fmt.Errorf("the checkpoint would go back from %s to %s", from.Position, to.Position)
	}
	if !b.ops.forgot.IsZero() {
		b.ops.marks = maps.Clone(b.marked) // what it marked after it forgot stays
	}
	return b.flush(from, to)
}

// owed says whether an effect would be repeated if the ops were lost.
func (o *ops) owed() bool {
	for _, p := range o.parks {
		if p.outcome != "" {
			return true
		}
	}
	return len(o.marks) > 0
}

// pay does what is owed, unless the save whose answer was lost has done it.
func (d *document) pay(o *ops, now time.Time) {
	if _, there := d.marks.any(o.marks); there {
		return
	}
	for _, p := range o.parks {
		if _, waits := d.park.waiting[p.parked.Record.Position]; p.outcome != "" && !waits {
			return
		}
	}
	d.do(o, now)
}
