package storetest

import (
	"fmt"
	"sync"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

var appendCases = []Case{
	{Name: "append_saves_all", Proves: "what was appended is in the log, in order, with its event_id, type and data", run: func(e *env) {
		s := e.open()
		e.holds(s)
		a, b, c, d := fact("n", "1"), typed("U", "n", "2"), fact("n", "3"), fact("n", "4")
		e.save(s, nil, a, b, c)
		e.save(s, nil, d)
		e.holds(s, a, b, c, d)
	}},
	{Name: "append_without_observations", Proves: "without observations an append is unconditional", run: func(e *env) {
		s := e.open()
		for i := range 5 {
			e.save(s, nil, fact("same", "key", "n", fmt.Sprint(i)))
			e.save(s, []consistency.Observation{}, fact("same", "key"))
		}
	}},
	{Name: "receipt_has_positions", Proves: "the receipt gives each event's position: ascending, above all before, and what reads show", run: func(e *env) {
		s := e.open()
		var log []event.Record
		for i := range 6 {
			var records []event.Record
			for range 1 + i%3 {
				records = append(records, fact("save", fmt.Sprint(i)))
			}
			before := e.last(s, everything)
			positions := e.save(s, nil, records...)
			if !positions[0].After(before) {
				e.failf("a save got position %s, which is not above the log's last event at %s", positions[0], before)
			}
			log = append(log, placed(records, positions)...)
		}
		e.holds(s, log...)
		for _, r := range log {
			text := r.Position.String()
			if back, err := consistency.ParsePosition(text); err != nil || back != r.Position {
				e.failf("position %q does not survive its text form: %v, %v", text, back, err)
			}
		}
	}},
	{Name: "append_ignores_positions", Proves: "the position in an appended record means nothing", run: func(e *env) {
		s := e.open()
		r := fact()
		r.Position = consistency.NewPosition(77, 7)
		p := e.save(s, nil, r)[0]
		r.Position = p
		e.holds(s, r)
	}},
	{Name: "append_is_atomic", Proves: "an append that is refused for whatever reason leaves nothing behind", run: func(e *env) {
		s := e.open()
		first := fact("k", "1")
		e.save(s, nil, first)
		stale := seen(at(where("k", "1"), consistency.Position{}))
		e.refuse(s, eventstore.Conflict, stale, []event.Record{fact(), fact("k", "1"), fact()})
		e.refuse(s, eventstore.Permanent, nil, []event.Record{fact(), fact(), raw("T", `[]`)}, eventstore.ErrInvalid)
		e.refuse(s, eventstore.Permanent, nil, []event.Record{fact(), fact("x", "y"), {Type: "T", Data: []byte(`{}`)}}, eventstore.ErrInvalid)
		if s.Features().UniqueEventIDs {
			e.refuse(s, eventstore.Permanent, nil, []event.Record{fact(), fact(), {ID: first.ID, Type: "T", Data: []byte(`{}`)}}, eventstore.ErrDuplicateEvent)
		}
		e.holds(s, first)
		after := fact()
		e.save(s, nil, after)
		e.holds(s, first, after)
	}},
	{Name: "saves_stay_together", Proves: "the events of a save follow one another, however many writers there are", run: func(e *env) {
		s := e.open()
		saves := max(2, e.f.Rounds/10)
		e.together(8, func(writer int) {
			for i := range saves {
				id := fmt.Sprint(writer, "-", i)
				e.save(s, nil, fact("save", id, "n", "0"), fact("save", id, "n", "1"), fact("save", id, "n", "2"))
			}
		})
		log := e.history(s, everything)
		if len(log) != 8*saves*3 {
			e.failf("%d events were saved, the log holds %d", 8*saves*3, len(log))
		}
		for i, r := range log {
			first := log[i-i%3]
			if got, want := text(r, "save"), text(first, "save"); got != want || text(r, "n") != fmt.Sprint(i%3) {
				e.failf("event %d of save %q stands between the events of save %q", i, got, want)
			}
		}
	}},
}

// text returns the string under a key of a record's data, or "".
func text(r event.Record, key string) string {
	var data map[string]any
	if decode(r.Data, &data) != nil {
		return ""
	}
	s, _ := data[key].(string)
	return s
}

var identityCases = []Case{
	{Name: "duplicate_event_id", Proves: "a second event with a stored event_id is ErrDuplicateEvent and Permanent, and the log is unchanged", run: func(e *env) {
		s := e.unique()
		first, second := fact("k", "1"), fact("k", "2")
		e.save(s, nil, first, second)
		again := fact("k", "3")
		for _, taken := range []event.Record{first, second} {
			again.ID = taken.ID
			e.refuse(s, eventstore.Permanent, nil, []event.Record{again}, eventstore.ErrDuplicateEvent)
			e.refuse(s, eventstore.Permanent, nil, []event.Record{fact(), again, fact()}, eventstore.ErrDuplicateEvent)
		}
		e.refuse(s, eventstore.Permanent, nil, []event.Record{first, second}, eventstore.ErrDuplicateEvent)
		e.holds(s, first, second)
	}},
	{Name: "conflict_before_duplicate", Proves: "observations are checked first: one that fails is a Conflict even if the event_id is stored", run: func(e *env) {
		s := e.unique()
		first := fact("commandId", "c1")
		p := e.save(s, seen(at(where("commandId", "c1"), consistency.Position{})), first)[0]
		e.refuse(s, eventstore.Conflict, seen(at(where("commandId", "c1"), consistency.Position{})), []event.Record{first})
		e.refuse(s, eventstore.Permanent, seen(at(where("commandId", "c1"), p)), []event.Record{first}, eventstore.ErrDuplicateEvent)
		e.holds(s, first)
	}},
	{Name: "duplicate_race", Proves: "of many appends at once with one event_id exactly one is saved, and their neighbours are not touched", run: func(e *env) {
		s := e.unique()
		saved := 0
		for round := range max(2, e.f.Rounds/5) {
			id := uuid.New()
			var mu sync.Mutex
			winners := 0
			e.together(16, func(i int) {
				if i%4 == 3 {
					e.save(s, nil, fact("neighbour", fmt.Sprint(i)))
					return
				}
				r := fact("round", fmt.Sprint(round))
				r.ID = id
				_, err := s.Append(e.ctx, []event.Record{fact(), r}, nil)
				if err != nil {
					e.isKind(err, eventstore.Permanent, eventstore.ErrDuplicateEvent)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				winners++
			})
			if saved += 4 + 2; winners != 1 {
				e.failf("round %d: %d of 12 appends with one event_id were saved", round, winners)
			}
		}
		if n := len(e.history(s, everything)); n != saved {
			e.failf("%d events were reported as saved, the log holds %d", saved, n)
		}
	}},
}

// unique opens the log, and ends the case where the store does not promise
// what it is about.
func (e *env) unique() eventstore.Store {
	s := e.open()
	if !s.Features().UniqueEventIDs {
		panic(failure{errNotPromised})
	}
	return s
}
