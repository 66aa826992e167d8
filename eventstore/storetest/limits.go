package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

var limitCases = []Case{
	{Name: "limits_are_refused", Proves: "what no store takes is refused with Permanent and ErrInvalid, and nothing is stored", run: func(e *env) {
		s := e.open()
		first := fact()
		e.save(s, nil, first)
		twice := fact()
		withMeta := func(m event.Metadata) []event.Record { r := fact(); r.Metadata = m; return []event.Record{r} }
		for what, records := range map[string][]event.Record{
			"no event":                      {},
			"no event_id":                   {{Type: "T", Data: json.RawMessage(`{}`)}},
			"an event_id twice":             {twice, twice},
			"no type":                       {typed("")},
			"a type of 257 bytes":           {typed(strings.Repeat("x", 257))},
			"a type with U+0000":            {typed("a\x00")},
			"no data":                       {raw("T", ``)},
			"data that is no JSON":          {raw("T", `{"a":}`)},
			"data after the object":         {raw("T", `{} {}`)},
			"an array":                      {raw("T", `[1]`)},
			"a string":                      {raw("T", `"a"`)},
			"null":                          {raw("T", `null`)},
			"U+0000 in a value":             {raw("T", `{"a":"x\u0000y"}`)},
			"U+0000 in a nested value":      {raw("T", `{"a":[{"b":"\u0000"}]}`)},
			"U+0000 in a key":               {raw("T", `{"a\u0000":1}`)},
			"a lone surrogate":              {raw("T", `{"a":"\ud800"}`)},
			"data that is not UTF-8":        {raw("T", "{\"a\":\"\xff\"}")},
			"a key twice":                   {raw("T", `{"a":1,"b":2,"a":3}`)},
			"a reserved key":                {raw("T", `{"eventType":"X"}`)},
			"a key that begins with __":     {raw("T", `{"__x":1}`)},
			"data of 1 MiB and a byte":      {sized(eventstore.MaxEventBytes + 1)},
			"1,001 events":                  facts(eventstore.MaxEvents + 1),
			"a reserved key of metadata":    withMeta(event.Metadata{Custom: map[string]string{"ccc.x": "y"}}),
			"U+0000 in metadata":            withMeta(event.Metadata{Command: "a\x00"}),
			"metadata that is not UTF-8":    withMeta(event.Metadata{Custom: map[string]string{"a": "\xff"}}),
			"metadata of more than 1 MiB":   withMeta(event.Metadata{Custom: map[string]string{"a": strings.Repeat("x", 1<<20)}}),
			"a good event and a bad one":    {fact(), raw("T", `1`)},
			"a good event and an empty one": {fact(), {}},
		} {
			e.refused(what, func() { e.refuse(s, eventstore.Permanent, nil, records, eventstore.ErrInvalid) })
		}
		many := make([]consistency.Observation, eventstore.MaxObservations+1)
		for i := range many {
			many[i] = at(where("k", fmt.Sprint(i)), consistency.Position{})
		}
		e.refused("65 observations", func() {
			e.refuse(s, eventstore.Permanent, many, []event.Record{fact()}, eventstore.ErrInvalid)
		})
		for what, q := range badQueries {
			e.refused("an observation of "+what, func() {
				e.refuse(s, eventstore.Permanent, seen(at(everything, e.last(s, everything)), at(q, consistency.Position{})), []event.Record{fact()}, eventstore.ErrInvalid)
			})
		}
		e.holds(s, first)
	}},
	{Name: "reads_are_refused", Proves: "a query that cannot be asked is ErrInvalid in every read, never an empty answer", run: func(e *env) {
		s := e.open()
		e.save(s, nil, fact("k", strings.Repeat("x", 257)))
		for what, q := range badQueries {
			e.refused(what, func() {
				_, err := s.Snapshot(e.ctx, eventstore.Part{Query: everything}, eventstore.Part{Query: q})
				e.invalid(err, "snapshot")
				_, err = s.Page(e.ctx, q, consistency.Position{}, 0)
				e.invalid(err, "page")
			})
		}
	}},
	{Name: "limits_are_reached", Proves: "what is just within the limits is saved, checked and read", run: func(e *env) {
		s := e.open()
		var log []event.Record
		add := func(seen []consistency.Observation, records ...event.Record) {
			log = append(log, placed(records, e.save(s, seen, records...))...)
		}
		add(nil, facts(eventstore.MaxEvents)...)
		add(nil, sized(eventstore.MaxEventBytes))
		long := strings.Repeat("x", consistency.MaxValue)
		add(nil, typed(long, "k", long))
		big := fact()
		big.Metadata.Custom = map[string]string{"note": strings.Repeat("m", 1<<20-4)}
		add(nil, big)

		all := make([]consistency.Observation, eventstore.MaxObservations)
		for i := range all {
			all[i] = at(where("k", fmt.Sprint("none", i)), consistency.Position{})
		}
		all[5] = at(where("k", long).Type(long), log[len(log)-2].Position)
		add(all, fact())
		names := make([]string, consistency.MaxCriteria-1)
		for i := range names {
			names[i] = fmt.Sprint("N", i)
		}
		wide := everything.Type(names...).Or(where("k", long))
		add(seen(at(wide, log[len(log)-3].Position)), typed("N77"))
		e.same(log[len(log)-1:], e.snapshot(s, eventstore.Part{Query: wide, LatestOnly: true})[0].Records, "latest of 400 criteria")
		e.same(log, e.history(s, everything), "the log")
	}},
	{Name: "big_events", Proves: "histories and pages of many megabytes are read complete", run: func(e *env) {
		s := e.open()
		var log []event.Record
		for range 6 {
			records := []event.Record{sized(eventstore.MaxEventBytes - 100), fact("small", "1")}
			log = append(log, placed(records, e.save(s, nil, records...))...)
		}
		e.same(log, e.history(s, everything), "the log")
		e.same(log, e.pages(s, everything, consistency.Position{}, 0, log[len(log)-1].Position), "the pages")
	}},
}

var badQueries = map[string]consistency.Query{
	"nothing":              {},
	"what excludes itself": where("a", "1").And(where("a", "2")),
	"257 bytes":            where("k", strings.Repeat("x", 257)),
	"a reserved key":       where("eventType", "T"),
	"a key with a space":   where("a b", "1"),
	"no key":               where("", "1"),
	"an empty type":        everything.Type(""),
	"U+0000":               where("k", "\x00"),
	"401 criteria": func() (q consistency.Query) {
		for i := range consistency.MaxCriteria + 1 {
			q = q.Or(where("k", fmt.Sprint(i)))
		}
		return q
	}(),
}

// refused adds what was tried to a failure of f.
func (e *env) refused(what string, f func()) {
	if err := e.guard(f); err != nil {
		e.failf("%s: %w", what, err)
	}
}

func (e *env) invalid(err error, what string) {
	if err == nil {
		e.failf("%s: ErrInvalid expected, it was answered", what)
	}
	e.isKind(err, eventstore.Permanent, eventstore.ErrInvalid)
}

// sized makes a record with that many bytes of data.
func sized(bytes int) event.Record {
	const frame = len(`{"big":""}`)
	return raw("T", `{"big":"`+strings.Repeat("b", bytes-frame)+`"}`)
}

func facts(n int) []event.Record {
	records := make([]event.Record, n)
	for i := range records {
		records[i] = fact("n", fmt.Sprint(i))
	}
	return records
}

var honestyCases = []Case{
	{Name: "ended_context", Proves: "an append whose context ended before is NotApplied and never stored; reads are an error", run: func(e *env) {
		s := e.open()
		first := fact()
		e.save(s, nil, first)
		ended, cancel := context.WithCancel(e.ctx)
		cancel()
		for range 10 {
			_, err := s.Append(ended, []event.Record{fact()}, nil)
			if err == nil {
				e.failf("an append with an ended context was saved")
			}
			e.isKind(err, eventstore.NotApplied, context.Canceled)
			if results, err := s.Snapshot(ended, eventstore.Part{Query: everything}); err == nil && (len(results) != 1 || len(results[0].Records) != 1) {
				e.failf("a snapshot with an ended context is not complete: %v", results)
			}
		}
		second := fact()
		e.save(s, nil, second)
		e.holds(s, first, second)
	}},
	{Name: "answers_are_true", Proves: "whenever a context ends, what was answered as saved is stored, and what was answered as not applied is not", run: func(e *env) {
		s := e.open()
		total := e.f.Rounds * 2
		type answer struct {
			id  uuid.UUID
			err error
		}
		answers := make([]answer, total)
		e.together(8, func(worker int) {
			for i := worker; i < total; i += 8 {
				ctx, cancel := context.WithCancel(e.ctx)
				r := fact("n", fmt.Sprint(i))
				go cancel() // somewhere before, in or after the append
				_, err := s.Append(ctx, []event.Record{r}, nil)
				cancel()
				answers[i] = answer{r.ID, err}
			}
		})
		e.save(s, nil, fact()) // later than all that was still under way
		stored := map[uuid.UUID]bool{}
		for _, r := range e.history(s, everything) {
			stored[r.ID] = true
		}
		for _, a := range answers {
			switch kind := eventstore.KindOf(a.err); {
			case a.err == nil && !stored[a.id]:
				e.failf("an append was answered as saved and is not in the log")
			case a.err != nil && kind != eventstore.Ambiguous && stored[a.id]:
				e.failf("an append was answered as %s and is in the log: %w", name(kind), a.err)
			case kind == eventstore.Conflict || kind == eventstore.Permanent:
				e.failf("an append whose context ended is NotApplied or Ambiguous, got %w", a.err)
			}
		}
	}},
	{Name: "reads_are_complete", Proves: "a history whose context ends while it is read is complete or an error", run: func(e *env) {
		s := e.open()
		const events = 600
		e.save(s, nil, facts(events)...)
		for range max(10, e.f.Rounds/2) {
			ctx, cancel := context.WithCancel(e.ctx)
			go cancel()
			results, err := s.Snapshot(ctx, eventstore.Part{Query: everything})
			cancel()
			if err == nil && (len(results) != 1 || len(results[0].Records) != events) {
				e.failf("a snapshot that was cut off gave %d results without an error", len(results))
			}
		}
	}},
	{Name: "neighbours_are_safe", Proves: "appends that fail do not fail those that are saved beside them", run: func(e *env) {
		s := e.open()
		taken := fact("k", "taken")
		e.save(s, nil, taken)
		unique := s.Features().UniqueEventIDs
		rounds := max(5, e.f.Rounds/5)
		e.together(12, func(i int) {
			for range rounds {
				switch i % 4 {
				case 0:
					e.refuse(s, eventstore.Conflict, seen(at(where("k", "taken"), consistency.Position{})), []event.Record{fact("bad", "1")})
				case 1:
					e.refuse(s, eventstore.Permanent, nil, []event.Record{raw("T", `{"bad":`)}, eventstore.ErrInvalid)
				case 2:
					if unique {
						e.refuse(s, eventstore.Permanent, nil, []event.Record{fact("bad", "1"), taken}, eventstore.ErrDuplicateEvent)
					}
				case 3:
					e.save(s, nil, fact("good", "1"), fact("good", "1"))
				}
			}
		})
		if good, bad := len(e.history(s, where("good", "1"))), len(e.history(s, where("bad", "1"))); good != 3*2*rounds || bad != 0 {
			e.failf("%d events saved and 0 others expected, the log holds %d and %d", 3*2*rounds, good, bad)
		}
	}},
}
