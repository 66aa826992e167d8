package effecttarget

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

const (
	maxWaiting  = 1000
	keepSettled = 1000
)

// askedDue is the Due of an event that somebody asked for.
var askedDue = time.Unix(0, 0).UTC()

// park holds the parked events of a name. What it holds is exchanged, and never
// changed in place.
type park struct {
	waiting map[consistency.Position]projector.Parked
	keys    map[string]map[consistency.Position]struct{} // of those that wait
	settled []projector.Parked                           // in the order of their settling

	// They are as they were encoded last; nil: changed since. Most saves change
	// none of them, and they may be large.
	waitingText, settledText []byte
}

func newPark() park {
	return park{waiting: map[consistency.Position]projector.Parked{}, keys: map[string]map[consistency.Position]struct{}{}}
}

// put keeps an event in the place of what was kept of it.
func (p *park) put(e projector.Parked) {
	at := e.Record.Position
	p.drop(at)
	e.Keys = slices.Clone(e.Keys)
	for _, t := range []*time.Time{&e.Record.Time, &e.First, &e.Last, &e.Since, &e.Due} {
		*t = micros(*t)
	}
	p.waiting[at] = e
	for _, key := range e.Keys {
		if p.keys[key] == nil {
			p.keys[key] = map[consistency.Position]struct{}{}
		}
		p.keys[key][at] = struct{}{}
	}
}

func (p *park) drop(at consistency.Position) {
	p.waitingText = nil
	for _, key := range p.waiting[at].Keys {
		delete(p.keys[key], at)
		if len(p.keys[key]) == 0 {
			delete(p.keys, key)
		}
	}
	delete(p.waiting, at)
}

// settle says whether one waited there.
func (p *park) settle(at consistency.Position, as projector.Outcome, reason string, now time.Time) bool {
	e, waits := p.waiting[at]
	if !waits {
		return false
	}
	p.drop(at)
	e.Settled, e.Outcome, e.Reason, e.Due = now, as, reason, time.Time{}
	p.settled = append(p.settled, e)
	p.settled = p.settled[max(0, len(p.settled)-keepSettled):]
	p.settledText = nil
	return true
}

// ask keeps an operator's word.
func (d *document) ask(at consistency.Position, discard string) error {
	e, waits := d.park.waiting[at]
	switch {
	case waits:
		e.Due, e.Discard = askedDue, discard
		d.park.put(e)
	case at.IsZero():
	case at == d.failure.Position && discard != "":
		d.failure.Discard = discard
	default:
		return fmt.Errorf("%w: %s", projector.ErrNotParked, at)
	}
	d.asked++
	return nil
}

// due is the earliest of those that wait.
func (p *park) due() (first time.Time) {
	for _, e := range p.waiting {
		if !e.Due.IsZero() && (first.IsZero() || e.Due.Before(first)) {
			first = e.Due
		}
	}
	return first
}

// list finds what a query asks for.
func (p *park) list(q projector.ParkedQuery) []projector.Parked {
	var found []projector.Parked
	meet := func(e projector.Parked) {
		at := e.Record.Position
		if (q.Key == "" || slices.Contains(e.Keys, q.Key)) &&
			at.After(q.After) && (q.UpTo.IsZero() || !at.After(q.UpTo)) &&
			(q.DueBy.IsZero() || !e.Due.IsZero() && !e.Due.After(q.DueBy)) {
			found = append(found, e)
		}
	}
	if q.Settled {
		for _, e := range p.settled {
			meet(e)
		}
	} else {
		for e := range maps.Values(p.waiting) {
			meet(e)
		}
	}
	slices.SortStableFunc(found, func(a, b projector.Parked) int { return a.Record.Position.Compare(b.Record.Position) })
	if q.Limit <= 0 {
		q.Limit = 100
	}
	found = found[:min(q.Limit, len(found))]
	for i := range found {
		found[i].Keys = slices.Clone(found[i].Keys)
	}
	return found
}
