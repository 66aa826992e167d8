package memtarget

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

func (b *batch[V]) IsParked(keys []string) (bool, error) {
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	for _, key := range keys {
		if b.first(key) != nil {
			return true, nil
		}
	}
	return false, nil
}

func (b *batch[V]) ParkedAt(at consistency.Position) (projector.Parked, bool, error) {
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	p := b.waiting(at)
	if p == nil {
		return projector.Parked{}, false, nil
	}
	return clone(p), true, nil
}

func (b *batch[V]) FirstParked(key string) (projector.Parked, bool, error) {
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	p := b.first(key)
	if p == nil {
		return projector.Parked{}, false, nil
	}
	note(&b.tx.reads.parked, p.Record.Position)
	return clone(p), true, nil
}

// first is the waiting event of a key with the lowest position, or nil.
func (b *batch[V]) first(key string) (first *projector.Parked) {
	b.tx.reads.keys = append(b.tx.reads.keys, key)
	for _, at := range b.touched[key] {
		if p := b.parked[at]; waits(p) && slices.Contains(p.Keys, key) &&
			(first == nil || first.Record.Position.After(at)) {
			first = p
		}
	}
	for _, at := range b.tx.owned.parked.byKey[key] {
		if b.parked[at] == nil { // nothing of our own lies on top of it
			if first == nil || first.Record.Position.After(at) {
				first = b.tx.owned.parked.waiting[at]
			}
			break
		}
	}
	return first
}

// waiting is the event that waits at a position, or nil.
func (b *batch[V]) waiting(at consistency.Position) *projector.Parked {
	note(&b.tx.reads.parked, at)
	p := b.parked[at]
	if p == nil {
		p = b.tx.owned.parked.waiting[at]
	}
	if waits(p) {
		return p
	}
	return nil
}

// put lays an event on top of what is committed.
func (b *batch[V]) put(p *projector.Parked, keys ...string) {
	if b.parked == nil {
		b.parked, b.touched = map[consistency.Position]*projector.Parked{}, map[string][]consistency.Position{}
	}
	at := p.Record.Position
	for _, key := range append(keys, p.Keys...) {
		if !slices.Contains(b.touched[key], at) {
			b.touched[key] = append(b.touched[key], at)
		}
	}
	b.parked[at] = p
}

func (b *batch[V]) Park(p projector.Parked) error {
	if p.Record.Position.IsZero() || len(p.Keys) == 0 {
		return fmt.Errorf("memtarget: park event %s at %s with keys %q: it has to have a position and a key", p.Record.ID, p.Record.Position, p.Keys)
	}
	p = clone(&p)
	for _, t := range []*time.Time{&p.Record.Time, &p.First, &p.Last, &p.Since, &p.Due} {
		*t = micro(*t)
	}
	p.Settled, p.Outcome, p.Reason = time.Time{}, "", "" // it waits from now on
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	var before []string
	if was := b.waiting(p.Record.Position); was != nil {
		before = slices.Clone(was.Keys)
	}
	b.put(&p, before...)
	return nil
}

func (b *batch[V]) Settle(at consistency.Position, as projector.Outcome, reason string) error {
	b.tx.family.mu.Lock()
	defer b.tx.family.mu.Unlock()
	if as != projector.Applied && as != projector.Discarded {
		return fmt.Errorf("memtarget: settle the event parked at %s: %q is no outcome: it is %q or %q", at, as, projector.Applied, projector.Discarded)
	}
	was := b.waiting(at)
	if was == nil {
		return fmt.Errorf("memtarget: settle as %s: %w: position %s", as, projector.ErrNotParked, at)
	}
	p := clone(was)
	p.Settled, p.Outcome, p.Reason = micro(time.Now()), as, reason
	b.put(&p)
	return nil
}

// Parked implements [projector.Target].
func (h *handle[V]) Parked(ctx context.Context, name projector.Name, q projector.ParkedQuery) ([]projector.Parked, error) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if err := h.usable(ctx, "parked events of", name); err != nil {
		return nil, err
	}
	return h.model().of(name).parked.list(q), nil
}

// Ask implements [projector.Target].
func (h *handle[V]) Ask(ctx context.Context, name projector.Name, at consistency.Position, discard string) error {
	m, err := h.writable(ctx, "ask", name)
	if err != nil {
		return err
	}
	defer h.family.mu.Unlock()
	o := m.of(name)
	switch was := o.parked.waiting[at]; {
	case at.IsZero():
	case was == nil && at == o.failure.Position && discard != "":
		o.failure.Discard = discard
		for x := range m.running { // nor to one who may have looked at the failure
			if x.owned == o && x.turn && x.clash == "" {
				x.clash = fmt.Sprintf("the failure at %s", at)
			}
		}
	case was == nil:
		return fmt.Errorf("memtarget: ask %s: %w: position %s", name, projector.ErrNotParked, at)
	default:
		for x := range m.running { // a word must not be lost to one who has not heard it
			if _, read := x.reads.parked[at]; read && x.owned == o && x.clash == "" {
				x.clash = fmt.Sprintf("the event parked at %s", at)
			}
		}
		p := clone(was)
		p.Due, p.Discard = time.Unix(0, 0).UTC(), discard
		o.parked.put(&p)
		o.parked.measure()
	}
	o.asked++
	o.wake()
	return nil
}
