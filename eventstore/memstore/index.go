package memstore

import (
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// A place is the number of an event in the log, from 0; its position is one
// more. A list holds places, ascending.
type list []int

func position(place int) consistency.Position { return consistency.NewPosition(0, uint64(place)+1) }

// view is the log as of one moment: what it holds below n never changes, so it
// is read without a lock.
type view struct {
	chunks [][]event.Record
	n      int
}

const chunkSize = 256

func (v *view) at(place int) *event.Record { return &v.chunks[place/chunkSize][place%chunkSize] }

// upTo returns how many events lie at or before p.
func (v *view) upTo(p consistency.Position) int {
	major, minor := p.Parts()
	if major > 0 || minor > uint64(v.n) {
		return v.n
	}
	return int(minor)
}

// index finds events by what can be queried. Lists only grow at their end, so
// one that was looked up under the lock may be read without it.
type index struct {
	view
	tags  map[consistency.Tag]list
	types map[string]list
	// room is where lists of one begin: most command IDs stand once.
	room list
	// scratch is for checks, which have the index to themselves.
	scratch []list
}

func newIndex() index {
	return index{tags: map[consistency.Tag]list{}, types: map[string]list{}, scratch: make([]list, 0, 8)}
}

func (x *index) add(r *event.Record, tags []consistency.Tag) consistency.Position {
	if x.n%chunkSize == 0 {
		x.chunks = append(x.chunks, make([]event.Record, chunkSize))
	}
	r.Position = position(x.n)
	*x.at(x.n) = *r
	x.types[r.Type] = x.grow(x.types[r.Type])
	for _, t := range tags {
		x.tags[t] = x.grow(x.tags[t])
	}
	x.n++
	return r.Position
}

func (x *index) grow(l list) list {
	if l != nil {
		return append(l, x.n)
	}
	if len(x.room) == 0 {
		x.room = make(list, chunkSize)
	}
	l, x.room = x.room[:1:1], x.room[1:]
	l[0] = x.n
	return l
}

// each calls f for every way in which an event can match q, as lists that it
// must all stand in (no list: every event), until f returns false. Room is
// where the lists are put, to be overwritten by the next ones; nil: each has
// its own.
func (x *index) each(q consistency.Query, room []list, f func([]list) bool) (all bool) {
	for _, c := range q.Criteria() {
		types := c.Types
		if len(types) == 0 {
			types = anyType[:]
		}
		for _, t := range types {
			if lists, ok := x.lists(room, t, c.Tags); ok && !f(lists) {
				return false
			}
		}
	}
	return true
}

// lists returns the lists that an event of this type (empty: any) with these
// tags stands in. ok is false where there can be none.
func (x *index) lists(room []list, eventType string, tags []consistency.Tag) (lists []list, ok bool) {
	if lists = room[:0]; room == nil {
		lists = make([]list, 0, len(tags)+1)
	}
	if eventType != "" {
		if lists = append(lists, x.types[eventType]); lists[0] == nil {
			return nil, false
		}
	}
	for _, t := range tags {
		l := x.tags[t]
		if l == nil {
			return nil, false
		}
		lists = append(lists, l)
	}
	return lists, true
}

var anyType = [1]string{""}

// check says why the observation does not hold, or nil. It looks at what is
// new since the observed position, and at that position.
func (x *index) check(o *consistency.Observation) error {
	floor := x.upTo(o.At)
	there := o.At.IsZero()
	newer := !x.each(o.Query, x.scratch, func(lists []list) bool {
		there = there || position(floor-1) == o.At && holds(lists, floor-1)
		return latest(lists, floor, x.n) < 0
	})
	if there && !newer {
		return nil
	}
	return x.conflict(o, floor)
}

func (x *index) conflict(o *consistency.Observation, floor int) error {
	last := -1
	x.each(o.Query, x.scratch, func(lists []list) bool {
		last = max(last, latest(lists, floor, x.n))
		return true
	})
	if last < 0 {
		return fmt.Errorf("memstore: %w: the latest match of %s is not at %s, where it was observed", eventstore.Conflict, o.Query, o.At)
	}
	return fmt.Errorf("memstore: %w: the latest match of %s is at %s, it was observed at %s", eventstore.Conflict, o.Query, position(last), o.At)
}
