package memtarget

import (
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

// parking is what is parked under a name: one event per position, which waits or
// is settled. Each is exchanged as a whole, and never changed in place.
type parking struct {
	waiting map[consistency.Position]*projector.Parked
	settled map[consistency.Position]*projector.Parked
	byKey   map[string][]consistency.Position // of those that wait, in order
	due     time.Time                         // the earliest of those
}

func newParking() parking {
	return parking{
		waiting: map[consistency.Position]*projector.Parked{},
		settled: map[consistency.Position]*projector.Parked{},
		byKey:   map[string][]consistency.Position{},
	}
}

func waits(p *projector.Parked) bool { return p != nil && p.Settled.IsZero() }

// put keeps an event, in the place of what was kept of it. Then measure.
func (p *parking) put(e *projector.Parked) {
	at := e.Record.Position
	if was := p.waiting[at]; was != nil {
		for _, key := range was.Keys {
			if i, found := slices.BinarySearchFunc(p.byKey[key], at, consistency.Position.Compare); found {
				p.byKey[key] = slices.Delete(p.byKey[key], i, i+1)
			}
			if len(p.byKey[key]) == 0 {
				delete(p.byKey, key)
			}
		}
	}
	delete(p.waiting, at)
	delete(p.settled, at)
	if !waits(e) {
		p.settled[at] = e
		return
	}
	p.waiting[at] = e
	for _, key := range e.Keys {
		if i, found := slices.BinarySearchFunc(p.byKey[key], at, consistency.Position.Compare); !found {
			p.byKey[key] = slices.Insert(p.byKey[key], i, at)
		}
	}
}

// measure finds the earliest Due.
func (p *parking) measure() {
	p.due = time.Time{}
	for _, e := range p.waiting {
		if !e.Due.IsZero() && (p.due.IsZero() || e.Due.Before(p.due)) {
			p.due = e.Due
		}
	}
}

// list finds what a query asks for.
func (p *parking) list(q projector.ParkedQuery) []projector.Parked {
	from := p.waiting
	if q.Settled {
		from = p.settled
	}
	var found []*projector.Parked
	for at, e := range from {
		if (q.Key == "" || slices.Contains(e.Keys, q.Key)) &&
			at.After(q.After) && (q.UpTo.IsZero() || !at.After(q.UpTo)) &&
			(q.DueBy.IsZero() || !e.Due.IsZero() && !e.Due.After(q.DueBy)) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *projector.Parked) int { return a.Record.Position.Compare(b.Record.Position) })
	if q.Limit <= 0 {
		q.Limit = 100
	}
	list := make([]projector.Parked, 0, min(q.Limit, len(found)))
	for _, e := range found[:min(q.Limit, len(found))] {
		list = append(list, clone(e))
	}
	return list
}

func clone(p *projector.Parked) projector.Parked {
	c := *p
	c.Keys = slices.Clone(p.Keys)
	return c
}
