package effecttarget

import (
	"context"
	"fmt"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// ops is what a batch did and what is not kept yet.
type ops struct {
	epoch            int64
	asked            int64 // the operators' words that the batch could see
	marks            marks
	forgot           consistency.Position
	parks            []parkStep
	applied, skipped int
}

// parkStep parks an event, or settles the one at its position.
type parkStep struct {
	parked  projector.Parked
	outcome projector.Outcome // empty: it parks
	reason  string
}

// batch implements [projector.Batch]: what it changes lies on top of what is
// kept, until it is kept too.
type batch[Tx any] struct {
	tx      Tx
	ctx     context.Context
	cell    *cell
	claim   projector.Claim
	lane    bool // it leaves the checkpoint alone
	durable bool // Done keeps the mark, and all before it, before it returns

	ops    ops
	over   map[consistency.Position]*projector.Parked // nil: settled
	marked marks                                      // by this batch
	broken error                                      // it could not be kept
}

func (b *batch[Tx]) Tx() Tx { return b.tx }

// view shows the document under what the batch did.
func (b *batch[Tx]) view(f func(*document) error) error {
	if b.broken != nil {
		return b.broken
	}
	return b.cell.view(b.ctx, b.claim, f)
}

func (b *batch[Tx]) Seen(id uuid.UUID) (seen bool, err error) {
	if _, ok := b.marked[id]; ok {
		return true, b.broken
	}
	err = b.view(func(d *document) error {
		at, ok := d.marks[id]
		seen = ok && at.After(b.ops.forgot)
		return nil
	})
	return seen, err
}

func (b *batch[Tx]) Done(id uuid.UUID, at consistency.Position) error {
	if b.broken != nil {
		return b.broken
	}
	if b.marked == nil {
		b.marked = marks{}
	}
	b.marked[id] = at
	if b.ops.marks == nil {
		b.ops.marks = marks{}
	}
	b.ops.marks[id] = at
	if !b.durable {
		return nil
	}
	forgot := b.ops.forgot
	b.ops.forgot = consistency.Position{} // only together with the checkpoint
	err := b.flush(nil, nil)
	b.ops.forgot = forgot
	return err
}

func (b *batch[Tx]) Forget(upTo consistency.Position) error {
	b.marked.forget(upTo)
	b.ops.marks.forget(upTo)
	if upTo.After(b.ops.forgot) {
		b.ops.forgot = upTo
	}
	return b.broken
}

func (b *batch[Tx]) Count(applied, skipped int) {
	b.ops.applied += applied
	b.ops.skipped += skipped
}

func (b *batch[Tx]) IsParked(keys []string) (parked bool, err error) {
	for _, p := range b.over {
		if p != nil && slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(p.Keys, k) }) {
			return true, b.broken
		}
	}
	err = b.view(func(d *document) error {
		for _, key := range keys {
			for at := range d.park.keys[key] {
				if _, changed := b.over[at]; !changed {
					parked = true
					return nil
				}
			}
		}
		return nil
	})
	return parked, err
}

func (b *batch[Tx]) ParkedAt(at consistency.Position) (p projector.Parked, found bool, err error) {
	if over, changed := b.over[at]; changed {
		if over == nil {
			return p, false, b.broken
		}
		return *over, true, b.broken
	}
	err = b.view(func(d *document) error {
		p, found = d.park.waiting[at]
		return nil
	})
	p.Keys = slices.Clone(p.Keys)
	return p, found, err
}

func (b *batch[Tx]) FirstParked(key string) (first projector.Parked, found bool, err error) {
	take := func(p projector.Parked) {
		if !found || first.Record.Position.After(p.Record.Position) {
			first, found = p, true
		}
	}
	err = b.view(func(d *document) error {
		for at := range d.park.keys[key] {
			if _, changed := b.over[at]; !changed {
				take(d.park.waiting[at])
			}
		}
		return nil
	})
	for _, p := range b.over {
		if p != nil && slices.Contains(p.Keys, key) {
			take(*p)
		}
	}
	first.Keys = slices.Clone(first.Keys)
	return first, found, err
}

func (b *batch[Tx]) Park(p projector.Parked) error {
	err := b.view(func(d *document) error {
		waiting, more := len(d.park.waiting), 1
		for at, over := range b.over {
			if _, waits := d.park.waiting[at]; waits && over == nil {
				waiting--
			} else if !waits && over != nil {
				waiting++
			}
		}
		if _, waits := d.park.waiting[p.Record.Position]; waits || b.over[p.Record.Position] != nil {
			more = 0
		}
		if waiting+more > maxWaiting {
			return fmt.Errorf("%w (%d)", ErrParkFull, waiting)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.Keys = slices.Clone(p.Keys)
	b.step(p.Record.Position, &p, parkStep{parked: p})
	return nil
}

func (b *batch[Tx]) Settle(at consistency.Position, as projector.Outcome, reason string) error {
	if as != projector.Applied && as != projector.Discarded {
		return fmt.Errorf("outcome %q: use Applied or Discarded", as)
	}
	p, waits, err := b.ParkedAt(at)
	if err == nil && !waits {
		err = fmt.Errorf("%w: %s", projector.ErrNotParked, at)
	}
	if err == nil {
		b.step(at, nil, parkStep{parked: p, outcome: as, reason: reason})
	}
	return err
}

func (b *batch[Tx]) step(at consistency.Position, is *projector.Parked, s parkStep) {
	if b.over == nil {
		b.over = map[consistency.Position]*projector.Parked{}
	}
	b.over[at] = is
	b.ops.parks = append(b.ops.parks, s)
}
