package effecttarget

import (
	"maps"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// keepMarks is how many marks are kept that lie at the checkpoint or before it.
// They matter only for logs that may hold an event_id twice.
const keepMarks = 1000

// marks are the events that are done.
type marks map[uuid.UUID]consistency.Position

func (m marks) forget(upTo consistency.Position) bool {
	before := len(m)
	maps.DeleteFunc(m, func(_ uuid.UUID, at consistency.Position) bool { return !at.After(upTo) })
	return len(m) != before
}

// any finds one that both have.
func (m marks) any(of marks) (id uuid.UUID, found bool) {
	for id := range of {
		if _, there := m[id]; there {
			return id, true
		}
	}
	return id, false
}

// bound drops the oldest, now and then: each of them would be written with every
// save for ever.
func (m marks) bound(checkpoint consistency.Position) {
	if len(m) <= 2*keepMarks {
		return
	}
	var past []consistency.Position
	for _, at := range m {
		if !at.After(checkpoint) {
			past = append(past, at)
		}
	}
	if len(past) > keepMarks {
		slices.SortFunc(past, consistency.Position.Compare)
		m.forget(past[len(past)-keepMarks-1])
	}
}
