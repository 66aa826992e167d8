package storetest

import (
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// page reads one page and checks what can be seen of it alone.
func (e *env) page(s eventstore.Store, q consistency.Query, after consistency.Position, limit int) eventstore.Page {
	page, err := s.Page(e.ctx, q, after, limit)
	e.need(err, "page of %s after %s", q, after)
	if limit > 0 && len(page.Records) > limit {
		e.failf("a page of at most %d events has %d", limit, len(page.Records))
	}
	before := after
	for _, r := range page.Records {
		switch {
		case !r.Position.After(before):
			e.failf("a page after %s must ascend from there: %s follows %s", after, r.Position, before)
		case r.Position.After(page.UpTo):
			e.failf("a page has an event at %s, beyond its UpTo at %s", r.Position, page.UpTo)
		}
		before = r.Position
	}
	if (page.UpTo == none) != (page.UpToID == uuid.Nil) {
		e.failf("UpTo %s and UpToID %s: both or none", page.UpTo, page.UpToID)
	}
	return page
}

// pages reads from after until the pages are complete up to goal, which is in
// the log. Pages may lag: it looks again until the case's time is up.
func (e *env) pages(s eventstore.Store, q consistency.Query, after consistency.Position, limit int, goal consistency.Position) (all []event.Record) {
	for goal.After(after) {
		if e.ctx.Err() != nil {
			e.failf("pages of %s stay at %s, the log is at %s", q, after, goal)
		}
		page := e.page(s, q, after, limit)
		if !page.UpTo.After(after) {
			if len(page.Records) > 0 {
				e.failf("a page after %s has events and ends at %s", after, page.UpTo)
			}
			e.pause("pages of %s stay at %s, the log is at %s", q, after, goal)
			continue
		}
		all = append(all, page.Records...)
		after = page.UpTo
	}
	return all
}

// pause waits a moment for a store whose pages lag.
func (e *env) pause(format string, args ...any) {
	select {
	case <-time.After(time.Millisecond):
	case <-e.ctx.Done():
		e.failf(format, args...)
	}
}

var pageCases = []Case{
	{Name: "page_limits", Proves: "pages of any limit, from any position, give every match once and in order", run: func(e *env) {
		s := e.open()
		var log []event.Record
		for i := range 23 {
			log = append(log, typed([]string{"T", "U"}[i%2], "k", []string{"1", "2", "3"}[i%3]))
		}
		m := e.fill(s, log...)
		head := m[len(m)-1].Position
		for _, q := range []consistency.Query{everything, where("k", "1"), where("k", "1").Or(everything.Type("U")), where("k", "none"), where("k", "2").Type("T")} {
			for _, limit := range []int{-1, 0, 1, 2, 3, 5, 22, 23, 24, 1000} {
				for _, after := range []consistency.Position{none, m[0].Position, m[7].Position, m[21].Position, head} {
					want := m.result(eventstore.Part{Query: q, After: after}).Records
					e.same(want, e.pages(s, q, after, limit, head), "pages of %s after %s, limit %d", q, after, limit)
				}
			}
		}
	}},
	{Name: "page_up_to_is_an_event", Proves: "UpTo is the position of an event of the log, and UpToID its event_id", run: func(e *env) {
		s := e.open()
		m := e.fill(s, fact("k", "1"), fact(), fact("k", "1"), fact(), fact(), fact("k", "1"), fact())
		ids := map[consistency.Position]uuid.UUID{none: uuid.Nil}
		for _, r := range m {
			ids[r.Position] = r.ID
		}
		for _, q := range []consistency.Query{everything, where("k", "1"), where("k", "none")} {
			for limit := range 5 {
				for _, after := range append([]event.Record{{}}, m...) {
					page := e.page(s, q, after.Position, limit)
					if id, ok := ids[page.UpTo]; !ok || id != page.UpToID {
						e.failf("page of %s after %s, limit %d: UpTo %s with UpToID %s, the event there is %s", q, after.Position, limit, page.UpTo, page.UpToID, id)
					}
				}
			}
		}
	}},
	{Name: "page_of_an_empty_log", Proves: "an empty log gives an empty page and a zero UpTo", run: func(e *env) {
		s := e.open()
		for _, after := range []consistency.Position{none, consistency.NewPosition(0, 10)} {
			if page := e.page(s, everything, after, 10); len(page.Records) != 0 || page.UpTo != none {
				e.failf("the log is empty, a page after %s has %d events and UpTo %s", after, len(page.Records), page.UpTo)
			}
		}
	}},
	{Name: "page_beyond_the_head", Proves: "a page after the last event, or after a position that was never reached, is empty, and UpTo is not after it but the log's last event", run: func(e *env) {
		s := e.open()
		m := e.fill(s, fact("k", "1"), fact(), fact("k", "1"))
		head := m[2].Position
		e.pages(s, everything, none, 0, head) // now nothing lags
		major, minor := head.Parts()
		for _, after := range []consistency.Position{head, consistency.NewPosition(major, minor+9), consistency.NewPosition(major+2, 0), beyondAll} {
			for _, q := range []consistency.Query{everything, where("k", "1"), where("k", "none")} {
				page := e.page(s, q, after, 5)
				if len(page.Records) != 0 || page.UpTo.After(head) {
					e.failf("page after %s of a log that ends at %s: %d events, UpTo %s", after, head, len(page.Records), page.UpTo)
				}
			}
		}
	}},
	{Name: "page_moves_over_others", Proves: "UpTo moves on over events that do not match, to the end of the log", run: func(e *env) {
		s := e.open()
		e.save(s, nil, fact("k", "1"))
		for range 3 {
			p := e.save(s, nil, facts(40)...)
			head := p[len(p)-1]
			for _, q := range []consistency.Query{where("k", "1"), where("k", "none")} {
				for _, limit := range []int{0, 1, 10} {
					e.pages(s, q, none, limit, head) // ends only when UpTo gets there
				}
			}
		}
	}},
	{Name: "pages_skip_nothing", Proves: "pages that are read while others write, at any pace, give every match once", run: func(e *env) {
		s := e.open()
		q := where("k", "1")
		var all, some []event.Record
		allAt, someAt := none, none
		next := func(q consistency.Query, got *[]event.Record, at *consistency.Position, limit int) {
			page := e.page(s, q, *at, limit)
			if *got = append(*got, page.Records...); page.UpTo.After(*at) {
				*at = page.UpTo
			}
		}
		e.whileWriting(6, func(writer, i int) {
			records := []event.Record{fact(), fact("k", "1"), fact("k", "2")}
			e.save(s, nil, records[(writer+i)%3:]...)
		}, func() {
			next(everything, &all, &allAt, 1+e.rng.IntN(9))
			next(q, &some, &someAt, e.rng.IntN(4))
		})
		log := e.history(s, everything)
		head := log[len(log)-1].Position
		all = append(all, e.pages(s, everything, allAt, 0, head)...)
		some = append(some, e.pages(s, q, someAt, 0, head)...)
		e.same(log, all, "all pages")
		e.same(model(log).matches(q), some, "pages of %s", q)
	}},
	{Name: "pages_can_be_complete_up_to", Proves: "a page is complete up to its UpTo: a snapshot up to there shows no more", run: func(e *env) {
		s := e.open()
		q := where("k", "1")
		e.whileWriting(4, func(_, i int) {
			e.save(s, nil, fact("k", "12"[i%2:i%2+1]), fact("k", "1"))
		}, func() {
			page := e.page(s, q, none, 1<<20)
			if page.UpTo == none {
				return
			}
			got := e.snapshot(s, eventstore.Part{Query: q, UpTo: page.UpTo}, eventstore.Part{Query: everything, UpTo: page.UpTo, LatestOnly: true})
			e.same(got[0].Records, page.Records, "a page up to %s, against a snapshot up to there", page.UpTo)
			if there := got[1].Records; len(there) != 1 || there[0].Position != page.UpTo || there[0].ID != page.UpToID {
				e.failf("UpTo %s with UpToID %s is no event of the log", page.UpTo, page.UpToID)
			}
		})
	}},
	{Name: "all_walks_over_pages", Proves: "eventstore.All gives every match once, over pages of the store's own size", run: func(e *env) {
		s := e.open()
		records := facts(900)
		m := model(placed(records, e.save(s, nil, records...)))
		q := where("n", "1").Or(where("n", "800")).Or(where("n", "899"))
		e.walk(s, m, everything, none)
		e.walk(s, m[500:], everything, m[499].Position)
		e.walk(s, m.matches(q), q, none)
	}},
}

// walk compares a walk with what must be seen, again until pages show it all.
func (e *env) walk(s eventstore.Store, want []event.Record, q consistency.Query, after consistency.Position) {
	for {
		var got []event.Record
		for r, err := range eventstore.All(e.ctx, s, q, after) {
			e.need(err, "walk")
			got = append(got, r)
		}
		if len(got) >= len(want) {
			e.same(want, got, "a walk over %s after %s", q, after)
			return
		}
		e.same(want[:len(got)], got, "a walk over %s after %s", q, after)
		e.pause("eventstore.All ends after %d of %d events", len(got), len(want))
	}
}
