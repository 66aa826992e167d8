package targettest

import (
	"context"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

func askCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"query-of-parked", 0, parkedQuery[Tx]},
		{"query-of-parked-has-a-limit", 0, parkedLimit[Tx]},
		{"ask-for-what-is-parked", 0, askParked[Tx]},
		{"ask-for-what-is-not-parked", 0, askNot[Tx]},
		{"ask-about-what-stands-in-the-way", 0, askZero[Tx]},
		{"ask-wakes", 0, askWakes[Tx]},
	}
}

func parkedQuery[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	soon, later, places := aParked(pos(1)).Since.Add(time.Minute), aParked(pos(1)).Since.Add(time.Hour), parkedPlaces()
	for i, at := range places {
		p := aParked(at, []string{"a", "b"}[i%2], "c")
		if i%3 > 0 {
			p.Due = []time.Time{soon, later}[i%3-1]
		}
		c.park(t, claim, p)
	}
	only := func(is ...int) (some []consistency.Position) {
		for _, i := range is {
			some = append(some, places[i])
		}
		return some
	}
	for _, look := range []struct {
		q    projector.ParkedQuery
		want []consistency.Position
	}{
		{projector.ParkedQuery{}, places},
		{projector.ParkedQuery{Key: "a"}, only(0, 2, 4, 6)},
		{projector.ParkedQuery{Key: "b"}, only(1, 3, 5)},
		{projector.ParkedQuery{Key: "x"}, nil},
		{projector.ParkedQuery{After: places[0]}, places[1:]},
		{projector.ParkedQuery{After: places[3]}, places[4:]},
		{projector.ParkedQuery{After: places[3].Prev()}, places[3:]},
		{projector.ParkedQuery{After: places[6]}, nil},
		{projector.ParkedQuery{UpTo: places[0].Prev()}, nil},
		{projector.ParkedQuery{UpTo: places[0]}, places[:1]},
		{projector.ParkedQuery{UpTo: places[2]}, places[:3]},
		{projector.ParkedQuery{UpTo: places[5]}, places[:6]},
		{projector.ParkedQuery{DueBy: soon.Add(-time.Microsecond)}, nil},
		{projector.ParkedQuery{DueBy: soon}, only(1, 4)},
		{projector.ParkedQuery{DueBy: later}, only(1, 2, 4, 5)},
		{projector.ParkedQuery{Limit: 2}, places[:2]},
		{projector.ParkedQuery{Key: "a", After: places[0], UpTo: places[5], DueBy: later, Limit: 1}, only(2)},
		{projector.ParkedQuery{Key: "c", After: places[0], UpTo: places[5], Limit: 10}, places[1:6]},
		{projector.ParkedQuery{Settled: true}, nil},
	} {
		c.listed(t, name, look.q, "seven are parked", look.want...)
	}
	for _, i := range []int{6, 0, 3} {
		c.settle(t, claim, places[i], projector.Applied, "")
	}
	c.listed(t, name, projector.ParkedQuery{}, "three of seven are settled", only(1, 2, 4, 5)...)
	c.listed(t, name, projector.ParkedQuery{Settled: true}, "three of seven are settled", only(0, 3, 6)...)
	c.listed(t, name, projector.ParkedQuery{Settled: true, Key: "a", After: places[0]}, "three of seven are settled", only(6)...)
	c.listed(t, name, projector.ParkedQuery{Settled: true, UpTo: places[3], Limit: 1}, "three of seven are settled", only(0)...)
}

func parkedLimit[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	var all []projector.Parked
	var places []consistency.Position
	for n := range uint64(103) {
		places = append(places, pos(n+1))
		all = append(all, aParked(pos(n+1), "k"))
	}
	c.park(t, claim, all...)
	c.listed(t, name, projector.ParkedQuery{}, "103 are parked", places[:100]...)
	c.listed(t, name, projector.ParkedQuery{Limit: 101}, "103 are parked", places[:101]...)
	c.listed(t, name, projector.ParkedQuery{After: places[99]}, "103 are parked", places[100:]...)
}

func askParked[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	p, other := aParked(pos(9), "k"), aParked(pos(10), "k")
	p.Due, other.Due = p.Since.Add(time.Hour), p.Since.Add(time.Minute)
	c.park(t, claim, p, other)
	c.ok(t.Release(c.ctx, claim), "release")
	for i, discard := range []string{"", "why\n'\"% ä", "for another reason", ""} {
		when := fmt.Sprintf("after somebody asked, with the reason %q", discard)
		c.ok(t.Ask(c.ctx, name, pos(9), discard), "ask without a claim")
		p.Due, p.Discard = time.Unix(0, 0).UTC(), discard
		got := c.listed(t, name, projector.ParkedQuery{}, when, pos(9), pos(10))
		c.same(got[0], p, when)
		c.same(got[1], other, when)
		if s := c.state(t, name); s.Asked != int64(i+1) || s.Due != p.Due || s.Parked != 2 {
			c.failf("%s: Asked is %d, want %d, Due is %v, and %d wait", when, s.Asked, i+1, s.Due, s.Parked)
		}
	}
	c.listed(t, name, projector.ParkedQuery{DueBy: other.Due}, "after somebody asked, and later", pos(9), pos(10))
	c.listed(t, name, projector.ParkedQuery{DueBy: time.Unix(1, 0)}, "after somebody asked", pos(9))
	claim = c.claim(t, name)
	c.ok(t.Ask(c.ctx, name, pos(10), "why"), "ask while somebody works")
	c.stay(t, claim, func(b projector.Batch[Tx]) error {
		got, found, err := b.ParkedAt(pos(10))
		if err != nil || !found || got.Discard != "why" || got.Due.IsZero() {
			return fmt.Errorf("the owner does not see what was asked: %+v, found %v, %w", got, found, err)
		}
		return nil
	})
}

func askNot[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.park(t, claim, aParked(pos(9), "k"), aParked(pos(10), "k"))
	c.settle(t, claim, pos(10), projector.Applied, "")
	before := c.state(t, name)
	for _, at := range []consistency.Position{pos(8), pos(10), pos(11)} {
		c.is(t.Ask(c.ctx, name, at, "why"), projector.ErrNotParked, fmt.Sprintf("ask for %s, where none waits", at))
	}
	c.is(t.Ask(c.ctx, projector.Name{Projector: "new", Boundary: "b"}, pos(9), ""), projector.ErrNotParked, "ask under a name that was never used")
	if s := c.state(t, name); s != before {
		c.failf("to ask for what is not parked changed the state to %+v, it was %+v", s, before)
	}
	if got := c.list(t, name, projector.ParkedQuery{Settled: true}); len(got) != 1 || got[0].Outcome != projector.Applied || got[0].Discard != "" {
		c.failf("to ask for what is settled changed it: %+v", got)
	}
}

func askZero[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	ask := func(n int64, when string) {
		before := c.state(t, name)
		c.ok(t.Ask(c.ctx, name, consistency.Position{}, ""), "ask "+when)
		if before.Asked++; c.state(t, name) != before || before.Asked != n {
			c.failf("ask %s: the state is %+v, want %+v", when, c.state(t, name), before)
		}
	}
	ask(1, "with nothing in the way")
	c.ok(t.Fail(c.ctx, claim, aFailure(2)), "fail")
	ask(2, "with a failure in the way")
	c.park(t, claim, aParked(pos(1), "k"))
	ask(3, "with one parked")
	c.ok(t.Release(c.ctx, claim), "release")
	ask(4, "with no owner")
	c.claim(t, name)
	ask(5, "with another owner")
	fresh := projector.Name{Projector: "new", Boundary: "b"}
	c.ok(t.Ask(c.ctx, fresh, consistency.Position{}, ""), "ask under a name that was never used")
	if s := c.state(t, fresh); s != (projector.State{Asked: 1}) {
		c.failf("ask under a name that was never used: the state is %+v", s)
	}
}

func askWakes[Tx any](c *env[Tx]) {
	t := c.open()
	asker := t
	if c.f.Shared {
		asker = c.open()
	}
	claim := c.claim(t, name)
	p := aParked(pos(1), "k")
	p.Due = time.Unix(0, 0).UTC() // so that Asked is all that changes
	c.park(t, claim, p)
	for _, at := range []consistency.Position{{}, pos(1)} {
		before := c.state(t, name)
		did := make(chan error, 1)
		go func() { did <- asker.Ask(c.ctx, name, at, "") }()
		c.until(t, name, "what was asked", func(s projector.State) bool { return s.Asked == before.Asked+1 })
		c.ok(<-did, "ask")
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		err := t.Wait(ctx, name, before)
		cancel()
		c.ok(err, "wait with a state from before somebody asked: it must return at once")
	}
}
