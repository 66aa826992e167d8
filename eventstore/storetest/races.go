package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

const racers = 32

var raceCases = []Case{
	{Name: "race_has_one_winner", Proves: "of 32 racers that observed the same exactly one is saved each round, the others get a Conflict", run: func(e *env) {
		s := e.open()
		e.oneWinner(func(int) eventstore.Store { return s }, racers, e.f.Rounds)
	}},
	{Name: "race_on_different_keys", Proves: "racers on different keys never conflict", run: func(e *env) {
		s := e.open()
		rounds := max(3, e.f.Rounds/5)
		e.together(racers, func(i int) {
			q := where("k", fmt.Sprint(i))
			last := none
			for n := range rounds {
				guard := at(where("commandId", fmt.Sprint(i, "-", n)), none)
				last = e.save(s, seen(at(q, last), guard), fact("k", fmt.Sprint(i), "shared", "x", "commandId", fmt.Sprint(i, "-", n)))[0]
			}
		})
		if n := len(e.history(s, where("shared", "x"))); n != racers*rounds {
			e.failf("%d events were reported as saved, the log holds %d", racers*rounds, n)
		}
	}},
	{Name: "race_on_a_command_id", Proves: "of many appends with one command's guard and disjoint contexts exactly one is saved", run: func(e *env) {
		s := e.open()
		rounds := max(3, e.f.Rounds/2)
		for round := range rounds {
			id := fmt.Sprint("c", round)
			var won atomic.Int64
			e.together(16, func(i int) {
				mine := fmt.Sprint(round, "-", i)
				e.wins(&won, s, seen(at(where("k", mine), none), at(where("commandId", id), none)), fact("k", mine, "commandId", id))
			})
			if won.Load() != 1 {
				e.failf("round %d: %d of 16 appends with one command's guard were saved", round, won.Load())
			}
		}
		if n := len(e.history(s, everything)); n != rounds {
			e.failf("%d events were reported as saved, the log holds %d", rounds, n)
		}
	}},
	{Name: "race_of_skewed_writes", Proves: "of two appends that each observe what the other writes one is saved, whatever their own events match", run: func(e *env) {
		s := e.open()
		for round := range e.f.Rounds {
			keys := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
			var won atomic.Int64
			e.together(2, func(i int) {
				e.wins(&won, s, seen(at(where("k", keys[1-i]), none)), fact("k", keys[i]))
			})
			if won.Load() != 1 {
				e.failf("round %d: %d of 2 appends were saved that exclude each other", round, won.Load())
			}
		}
	}},
	{Name: "race_of_joined_queries", Proves: "racers whose queries overlap by OR, AND and type exclude each other as those of one key do", run: func(e *env) {
		s := e.open()
		for round := range max(3, e.f.Rounds/2) {
			a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
			queries := []consistency.Query{where("k", a).Or(where("l", b)), where("k", a).And(where("l", b)), where("k", a).Type("T"), where("l", b).Type("T", "U")}
			var won atomic.Int64
			e.together(16, func(i int) {
				e.wins(&won, s, seen(at(queries[i%4], none)), fact("k", a, "l", b))
			})
			if won.Load() != 1 {
				e.failf("round %d: %d of 16 appends were saved that exclude each other", round, won.Load())
			}
		}
	}},
	{Name: "race_of_counters", Proves: "read, decide, append, and again on a conflict: no update is lost", run: func(e *env) {
		s := e.open()
		q := where("counter", "1")
		rounds := max(2, e.f.Rounds/10)
		e.together(8, func(int) {
			for range rounds {
				for {
					r := e.snapshot(s, eventstore.Part{Query: q, LatestOnly: true})[0]
					n := 0
					if len(r.Records) == 1 {
						_, _ = fmt.Sscan(text(r.Records[0], "n"), &n)
					}
					_, err := s.Append(e.ctx, []event.Record{fact("counter", "1", "n", fmt.Sprint(n+1))}, seen(at(q, r.Last)))
					if err == nil {
						break
					}
					e.isKind(err, eventstore.Conflict)
				}
			}
		})
		log := e.history(s, q)
		if len(log) != 8*rounds || text(log[len(log)-1], "n") != fmt.Sprint(8*rounds) {
			e.failf("%d steps were taken, the log holds %d and counts to %s", 8*rounds, len(log), text(log[len(log)-1], "n"))
		}
	}},
}

// oneWinner races for one key, observed anew each round.
func (e *env) oneWinner(handle func(i int) eventstore.Store, racers, rounds int) {
	q := where("race", "1")
	last := none
	for round := range rounds {
		var won atomic.Int64
		e.together(racers, func(i int) {
			e.wins(&won, handle(i), seen(at(q, last)), fact("race", "1", "round", fmt.Sprint(round)))
		})
		if won.Load() != 1 {
			e.failf("round %d: %d of %d racers were saved", round, won.Load(), racers)
		}
		last = e.last(handle(round), q)
	}
	if n := len(e.history(handle(0), q)); n != rounds {
		e.failf("%d events were reported as saved, the log holds %d", rounds, n)
	}
}

// wins counts an append that is saved; one that is not must be a conflict.
func (e *env) wins(won *atomic.Int64, s eventstore.Store, seen []consistency.Observation, r event.Record) {
	if _, err := s.Append(e.ctx, []event.Record{r}, seen); err != nil {
		e.isKind(err, eventstore.Conflict)
		return
	}
	won.Add(1)
}
