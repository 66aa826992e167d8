package storetest

import (
	"fmt"
	"math"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

var (
	none      consistency.Position
	beyondAll = consistency.NewPosition(math.MaxUint64, math.MaxUint64)
)

var observationCases = []Case{
	{Name: "zero_means_no_match", Proves: "an observation at the zero position holds as long as nothing matches", run: func(e *env) {
		s := e.open()
		q := where("k", "1")
		e.save(s, seen(at(q, none), at(everything, none)), fact("other", "1"))
		e.save(s, seen(at(q, none)), fact("k", "1"), fact("k", "1")) // its own events do not count
		e.refuse(s, eventstore.Conflict, seen(at(q, none)), []event.Record{fact("k", "1")})
		e.refuse(s, eventstore.Conflict, seen(at(everything, none)), []event.Record{fact()})
		if n := len(e.history(s, everything)); n != 3 {
			e.failf("3 events expected, the log holds %d", n)
		}
	}},
	{Name: "observations_hold_by_equality", Proves: "an observation holds if the latest match is exactly at its position: lower is stale, and so is higher", run: func(e *env) {
		s := e.open()
		q := where("k", "1")
		m := e.fill(s, fact(), fact("k", "1"), fact("x", "2"), fact("k", "1"), fact("x", "2"), fact("k", "2"))
		latest := m[3].Position
		for _, r := range m {
			if r.Position != latest {
				e.refuse(s, eventstore.Conflict, seen(at(q, r.Position)), []event.Record{fact("k", "1")})
			}
		}
		major, minor := m[5].Position.Parts()
		for _, beyond := range []consistency.Position{
			consistency.NewPosition(major, minor+1), consistency.NewPosition(major, minor+1000),
			consistency.NewPosition(major+1, minor), consistency.NewPosition(major+1, 0),
			consistency.NewPosition(major, math.MaxUint64), consistency.NewPosition(1<<62, 1<<62), beyondAll,
		} {
			e.refuse(s, eventstore.Conflict, seen(at(q, beyond)), []event.Record{fact("k", "1")})
			e.refuse(s, eventstore.Conflict, seen(at(where("k", "none"), beyond)), []event.Record{fact("k", "1")})
		}
		e.refuse(s, eventstore.Conflict, seen(at(where("k", "none"), latest)), []event.Record{fact()})
		e.holds(s, m...)
		e.save(s, seen(at(q, latest)), fact("x", "2")) // moves nothing that q sees
		next := e.save(s, seen(at(q, latest)), fact("k", "1"))[0]
		e.refuse(s, eventstore.Conflict, seen(at(q, latest)), []event.Record{fact()})
		e.save(s, seen(at(q, next)), fact())
	}},
	{Name: "observation_after_a_save_of_many", Proves: "the latest match of a save of several events is the last of them that matches", run: func(e *env) {
		s := e.open()
		p := e.save(s, nil, fact("k", "1", "n", "1"), fact("k", "1", "n", "2"), fact("k", "2"))
		q := where("k", "1")
		for _, wrong := range []consistency.Position{none, p[0], p[2]} {
			e.refuse(s, eventstore.Conflict, seen(at(q, wrong)), []event.Record{fact()})
		}
		e.save(s, seen(at(q, p[1]), at(where("k", "2"), p[2]), at(q.And(where("n", "1")), p[0])), fact())
	}},
	{Name: "all_observations_count", Proves: "of several observations each one is checked, wherever it stands", run: func(e *env) {
		s := e.open()
		m := e.fill(s, fact("k", "0"), fact("k", "1"), fact("k", "2"), fact("k", "3"), fact("k", "4"))
		good := make([]consistency.Observation, len(m))
		for i, r := range m {
			good[i] = at(where("k", fmt.Sprint(i)), r.Position)
		}
		guard := at(where("commandId", "c"), none)
		for i := range good {
			bad := append(append([]consistency.Observation{}, good...), guard)
			bad[i].At = none
			e.refuse(s, eventstore.Conflict, bad, []event.Record{fact("commandId", "c")})
			bad[i] = at(where("k", "new"), m[4].Position)
			e.refuse(s, eventstore.Conflict, bad, []event.Record{fact("commandId", "c")})
		}
		e.refuse(s, eventstore.Conflict, append(good, at(where("k", "0"), none)), []event.Record{fact()})
		e.save(s, append(good, guard, good[0]), fact("commandId", "c"))
		e.refuse(s, eventstore.Conflict, append(good, guard), []event.Record{fact("commandId", "c")})
	}},
	{Name: "guard_without_context", Proves: "an observation alone guards an append whose events match nothing else", run: func(e *env) {
		s := e.open()
		for i := range 3 {
			id := fmt.Sprint("c", i)
			guard := seen(at(where("commandId", id), none))
			e.save(s, guard, fact("commandId", id))
			e.refuse(s, eventstore.Conflict, guard, []event.Record{fact("commandId", id)})
		}
	}},
}
