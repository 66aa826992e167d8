package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

var snapshotCases = []Case{
	{Name: "snapshot_of_nothing", Proves: "where nothing matches there are no records and Last is zero", run: func(e *env) {
		s := e.open()
		for range 2 {
			for _, latest := range []bool{false, true} {
				r := e.snapshot(s, eventstore.Part{Query: where("k", "none"), LatestOnly: latest})[0]
				if len(r.Records) != 0 || r.Last != none {
					e.failf("no match expected, got %d records and Last %s", len(r.Records), r.Last)
				}
			}
			e.save(s, nil, fact("k", "1"))
		}
	}},
	{Name: "snapshot_bounds", Proves: "After and UpTo bound a history, UpTo alone a latest match, and Last is the latest match up to UpTo wherever After lies", run: func(e *env) {
		s := e.open()
		m := e.fill(s, fact("k", "1"), fact("k", "2"), fact("k", "1", "l", "1"), fact(), fact("k", "1"), typed("U", "k", "1"), fact("k", "2"))
		major, minor := m[len(m)-1].Position.Parts()
		bounds := []consistency.Position{none, consistency.NewPosition(major, minor+5), consistency.NewPosition(major+3, 0), beyondAll}
		for _, r := range m {
			bounds = append(bounds, r.Position, r.Position.Prev())
		}
		queries := []consistency.Query{everything, where("k", "1"), where("k", "2"), where("k", "1").And(where("l", "1")),
			where("k", "1").Type("U").Or(where("k", "2")), where("k", "none")}
		var parts []eventstore.Part
		for _, after := range bounds {
			for _, upTo := range bounds {
				for _, q := range queries {
					parts = append(parts, eventstore.Part{Query: q, After: after, UpTo: upTo}, eventstore.Part{Query: q, After: after, UpTo: upTo, LatestOnly: true})
				}
			}
		}
		e.rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		for len(parts) > 0 {
			n := min(len(parts), 1+e.rng.IntN(30))
			for i, got := range e.snapshot(s, parts[:n]...) {
				e.result(m, parts[i], got)
			}
			parts = parts[n:]
		}
	}},
	{Name: "snapshot_parts_keep_their_order", Proves: "results stand in the order of their parts, equal parts too", run: func(e *env) {
		s := e.open()
		m := e.fill(s, fact("k", "0"), fact("k", "1"), fact("k", "2"))
		var parts []eventstore.Part
		for i := range 64 {
			parts = append(parts, eventstore.Part{Query: where("k", fmt.Sprint(i*7%4)), LatestOnly: i%5 == 0})
		}
		for i, got := range e.snapshot(s, parts...) {
			e.result(m, parts[i], got)
		}
	}},
	{Name: "long_history", Proves: "a history of thousands of events is complete and in order", run: func(e *env) {
		s := e.open()
		var m model
		for range 5 {
			records := facts(900)
			m = append(m, placed(records, e.save(s, nil, records...))...)
		}
		e.asks(s, m, everything)
		for _, part := range []eventstore.Part{
			{Query: everything, After: m[3].Position},
			{Query: everything, UpTo: m[len(m)-3].Position},
			{Query: where("n", "1").Or(everything.Type("T")), After: m[1234].Position, UpTo: m[3456].Position},
		} {
			e.result(m, part, e.snapshot(s, part)[0])
		}
	}},
	{Name: "features_never_change", Proves: "Features is the same at every call", run: func(e *env) {
		s := e.open()
		before := s.Features()
		e.save(s, nil, fact())
		if after := s.Features(); after != before {
			e.failf("Features was %+v, and is %+v after an append", before, after)
		}
	}},
}

func (e *env) result(m model, part eventstore.Part, got eventstore.Result) {
	want := m.result(part)
	what := fmt.Sprintf("%s after %s up to %s, latest only: %t", part.Query, part.After, part.UpTo, part.LatestOnly)
	e.same(want.Records, got.Records, "%s", what)
	if got.Last != want.Last {
		e.failf("%s: Last at %s expected, got %s", what, want.Last, got.Last)
	}
}

var momentCases = []Case{
	{Name: "answers_are_visible", Proves: "a snapshot that starts after an append was answered sees it, also with other writers about", run: func(e *env) {
		s := e.open()
		e.together(8, func(writer int) {
			mine := where("writer", fmt.Sprint(writer))
			for i := range e.f.Rounds {
				p := e.save(s, nil, fact("writer", fmt.Sprint(writer), "i", fmt.Sprint(i)), fact("writer", fmt.Sprint(writer)))
				got := e.snapshot(s, eventstore.Part{Query: mine, LatestOnly: true}, eventstore.Part{Query: everything, LatestOnly: true},
					eventstore.Part{Query: mine, After: p[0].Prev()})
				if got[0].Last != p[1] || p[1].After(got[1].Last) || len(got[2].Records) != 2 {
					e.failf("a save at %v was answered; a snapshot after that shows its query at %s, the log at %s, and %d of its 2 events",
						p, got[0].Last, got[1].Last, len(got[2].Records))
				}
			}
		})
	}},
	{Name: "conflicts_are_visible", Proves: "a snapshot that starts after a conflict was answered sees what the conflict was about", run: func(e *env) {
		s := e.open()
		q := where("k", "1")
		e.together(8, func(int) {
			for range e.f.Rounds {
				was := e.last(s, q)
				_, err := s.Append(e.ctx, []event.Record{fact("k", "1")}, seen(at(q, was)))
				now := e.last(s, q)
				if err != nil {
					e.isKind(err, eventstore.Conflict)
				}
				if !now.After(was) {
					e.failf("an append that observed %s was answered with %v; a snapshot after that shows the latest match at %s", was, err, now)
				}
			}
		})
	}},
	{Name: "snapshot_is_one_moment", Proves: "all parts of a snapshot are as of one moment: money that moves between accounts is never seen half, nor twice", run: func(e *env) {
		s := e.open()
		accounts := []string{"ada", "bob", "eve"}
		e.whileWriting(4, func(writer, i int) {
			from, to := accounts[(writer+i)%3], accounts[(writer+i+1)%3]
			e.save(s, nil, fact("account", from, "cents", "-1"), fact("account", to, "cents", "1"))
		}, func() {
			var parts []eventstore.Part
			for _, a := range accounts {
				parts = append(parts, eventstore.Part{Query: where("account", a)})
			}
			parts = append(parts, eventstore.Part{Query: everything, LatestOnly: true}, eventstore.Part{Query: everything})
			sum, head, records := 0, none, 0
			results := e.snapshot(s, parts...)
			for _, r := range results[:len(accounts)] {
				for _, posted := range r.Records {
					records++
					sum += map[string]int{"1": 1, "-1": -1}[text(posted, "cents")]
				}
				if r.Last.After(head) {
					head = r.Last
				}
			}
			if sum != 0 || head != results[3].Last || head != results[4].Last || records != len(results[4].Records) {
				e.failf("the accounts add up to %d (0 expected), their last event is at %s, the log's at %s and %s, with %d and %d events",
					sum, head, results[3].Last, results[4].Last, records, len(results[4].Records))
			}
		})
	}},
	{Name: "saves_are_seen_whole", Proves: "a snapshot shows all events of a save or none", run: func(e *env) {
		s := e.open()
		q := where("k", "1").Or(where("k", "2"))
		e.whileWriting(3, func(writer, i int) {
			id := fmt.Sprint(writer, "-", i)
			e.save(s, nil, fact("k", "1", "save", id), fact("k", "2", "save", id), fact("k", "1", "save", id))
		}, func() {
			results := e.snapshot(s, eventstore.Part{Query: q}, eventstore.Part{Query: q, LatestOnly: true})
			count := map[string]int{}
			for _, r := range results[0].Records {
				count[text(r, "save")]++
			}
			for id, n := range count {
				if n != 3 {
					e.failf("%d of the 3 events of save %s are visible", n, id)
				}
			}
			if latest := results[1].Records; len(latest) == 1 && text(latest[0], "k") != "1" {
				e.failf("the latest match is not the last event of a save")
			}
		})
	}},
	{Name: "positions_appear_in_order", Proves: "once a position is visible no lower one appears later, in snapshots and in pages", run: func(e *env) {
		s := e.open()
		var snapshots, pages []event.Record
		pageCursor := none
		e.whileWriting(6, func(writer, i int) {
			records := facts(1 + (writer+i)%3)
			e.save(s, nil, records...)
		}, func() {
			cursor := none
			if len(snapshots) > 0 {
				cursor = snapshots[len(snapshots)-1].Position
			}
			snapshots = append(snapshots, e.snapshot(s, eventstore.Part{Query: everything, After: cursor})[0].Records...)
			page := e.page(s, everything, pageCursor, 1+e.rng.IntN(20))
			if pages = append(pages, page.Records...); page.UpTo.After(pageCursor) {
				pageCursor = page.UpTo
			}
		})
		log := e.history(s, everything)
		e.same(log[:min(len(snapshots), len(log))], snapshots, "what snapshots showed, each after the last")
		e.same(log[:min(len(pages), len(log))], pages, "what pages showed, each after the last")
	}},
}

// whileWriting has writers at work, and reads until they are done and once
// more. Writers go on for as long as it takes to be read at, within reason.
func (e *env) whileWriting(writers int, write func(writer, i int), read func()) {
	var reads, done atomic.Int64
	least := max(5, e.f.Rounds/2)
	e.together(writers+1, func(i int) {
		if i < writers {
			defer done.Add(1)
			for n := 0; n < least || reads.Load() < int64(least) && n < 5*least; n++ {
				write(i, n)
			}
			return
		}
		for done.Load() < int64(writers) && e.ctx.Err() == nil {
			read()
			if reads.Add(1) > int64(least) {
				// Enough of reads without a rest: where time is virtual it
				// stands still meanwhile.
				time.Sleep(100 * time.Microsecond)
			}
		}
		read()
	})
}
