package targettest

import (
	"context"
	"fmt"
	"slices"

	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// The cases of a target that is a [projector.Generations].
func generationCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"generation-is-apart", 0, generationApart[Tx]},
		{"generation-names", 0, generationNames[Tx]},
		{"generations-tell-what-is-ahead", 0, generationAhead[Tx]},
		{"generation-is-found-again", 0, generationFound[Tx]},
		{"generation-of-another-tag", 0, generationOther[Tx]},
		{"generation-compares", 0, generationCompares[Tx]},
		{"generations-are-dropped", 0, generationsDropped[Tx]},
		{"generation-with-an-ended-context", 0, generationEnded[Tx]},
		{"switch-takes-all", 0, switchAll[Tx]},
		{"switch-ends-all-claims", 0, switchClaims[Tx]},
		{"switch-that-is-not-ready", 0, switchNotReady[Tx]},
		{"switch-holds-the-live-one", 0, switchHolds[Tx]},
		{"switch-is-one-step", 0, switchOneStep[Tx]},
		{"switch-wakes", 0, switchWakes[Tx]},
	}
}

func (c *env[Tx]) generations(t projector.Target[Tx]) projector.Generations[Tx] {
	g, ok := t.(projector.Generations[Tx])
	if !ok {
		panic(skipped("the target has no generations"))
	}
	return g
}

func (c *env[Tx]) next(t projector.Generations[Tx], tag string) projector.Generation[Tx] {
	g, err := t.Next(c.ctx, tag)
	c.ok(err, "next generation")
	c.building = append(c.building, g)
	return g
}

func (c *env[Tx]) closeNext(g projector.Generation[Tx]) {
	if i := slices.IndexFunc(c.building, func(o projector.Generation[Tx]) bool { return o == g }); i >= 0 {
		c.building = slices.Delete(c.building, i, i+1)
	}
	c.ok(g.Close(), "close the generation")
}

func ready(context.Context) error { return nil }

func generationApart[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	live := c.claim(t, name)
	c.apply(t, live, projector.Checkpoint{}, c.put("a", "1", at(7), id("x")))
	c.park(t, live, aParked(pos(3), "k"))
	before := c.state(t, name)
	g := c.next(t, "one")
	if s := c.state(g, name); s != (projector.State{}) {
		c.failf("a new generation begins with the state %+v", s)
	}
	c.reads(g, "a", "", "in a new generation")
	c.listed(g, name, projector.ParkedQuery{}, "in a new generation")
	if p := g.Promise(); p != t.Promise() {
		c.failf("the promise of a generation is %q, the target's is %q", p, t.Promise())
	}
	claim := c.claim(g, name)
	if c.seen(g, claim, id("x")) {
		c.failf("a mark of the live generation is seen in a new one")
	}
	c.apply(g, claim, projector.Checkpoint{}, c.put("a", "2", at(1)))
	c.apply(g, claim, at(1), c.put("b", "2", at(2), id("y")))
	c.park(g, claim, aParked(pos(4), "l"))
	c.ok(g.Fail(c.ctx, claim, aFailure(5)), "fail")
	c.reads(g, "a", "2", "in the generation that wrote it")
	c.listed(g, name, projector.ParkedQuery{}, "in the generation that parked it", pos(4))
	if s := c.state(g, name); s.Checkpoint != at(2) || s.Failure != aFailure(5) || !s.Held {
		c.failf("the state of a generation is %+v", s)
	}
	const when = "in the live generation, after a new one was written to"
	c.reads(t, "a", "1", when)
	c.reads(t, "b", "", when)
	if s := c.state(t, name); s != before {
		c.failf("%s the state is %+v, it was %+v", when, s, before)
	}
	c.apply(t, live, at(7), c.put("a", "3", at(8)))
	c.reads(g, "a", "2", "in the new generation, after the live one was written to")
	if c.seen(t, live, id("y")) {
		c.failf("a mark of a new generation is seen in the live one")
	}
}

func generationNames[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	names := func(when string, want ...projector.Name) {
		got, err := t.Names(c.ctx)
		c.ok(err, "names")
		for _, n := range want {
			if !slices.Contains(got, n) {
				c.failf("%s: the names are %q, %q is missing", when, got, n)
			}
		}
		if len(got) != len(want) {
			c.failf("%s: the names are %q, want %q", when, got, want)
		}
	}
	names("before the first use")
	a, b, other := projector.Name{Projector: "a", Boundary: "b"}, projector.Name{Projector: "b", Boundary: "a"}, projector.Name{Projector: "c", Boundary: "c"}
	c.state(t, other) // a look is no use
	claim := c.claim(t, a)
	c.apply(t, claim, projector.Checkpoint{}, c.put("k", "1", at(1)))
	c.ok(t.Release(c.ctx, claim), "release")
	c.claim(t, b)
	g := c.next(t, "one")
	c.claim(g, other)
	names("with two names used, and another one in the next generation", a, b)
}

func generationAhead[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	claim := c.claim(t, name)
	c.ok(t.Apply(c.ctx, claim, projector.Checkpoint{}, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		for _, n := range []uint64{7, 9, 10, 11} { // as texts, 10 sorts before 9
			if err := b.Done(id(fmt.Sprint(n)), at(n).Position); err != nil {
				return at(7), err
			}
		}
		return at(7), nil
	}), "apply with marks")
	g := c.next(t, "one")
	c.apply(g, c.claim(g, name), projector.Checkpoint{}, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		return at(7), b.Done(id("next"), at(99).Position)
	})
	for after, want := range map[uint64][]uuid.UUID{7: {id("9"), id("10"), id("11")}, 9: {id("10"), id("11")}, 11: {}} {
		got, err := t.Ahead(c.ctx, name, at(after).Position)
		c.ok(err, "ahead")
		missing := slices.DeleteFunc(want, func(i uuid.UUID) bool { return slices.Contains(got, i) })
		if len(missing) > 0 || len(got) != map[uint64]int{7: 3, 9: 2, 11: 0}[after] {
			c.failf("ahead of %d are %d marks, without %v", after, len(got), missing)
		}
	}
	if got, err := t.Ahead(c.ctx, projector.Name{Projector: "other", Boundary: name.Boundary}, at(0).Position); err != nil || len(got) != 0 {
		c.failf("ahead under a name that was never used are %v, %v", got, err)
	}
}

func generationFound[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	g := c.next(t, "one")
	claim := c.claim(g, name)
	c.apply(g, claim, projector.Checkpoint{}, c.put("a", "1", at(7), id("x")))
	c.ok(g.Release(c.ctx, claim), "release")
	c.closeNext(g)
	_, err := g.State(c.ctx, name)
	c.is(err, projector.ErrClosed, "state of a generation that was closed")
	_, err = g.Claim(c.ctx, name)
	c.is(err, projector.ErrClosed, "claim in a generation that was closed")
	c.is(g.Switch(c.ctx, ready), projector.ErrClosed, "switch to a generation that was closed")
	g = c.next(t, "one")
	c.reads(g, "a", "1", "in a generation that was found again")
	c.checkpointIs(g, name, at(7), "in a generation that was found again")
	again := c.claim(g, name)
	if again.Epoch <= claim.Epoch {
		c.failf("epoch %d in a generation that was found again, before it was %d", again.Epoch, claim.Epoch)
	}
	if !c.seen(g, again, id("x")) {
		c.failf("a mark is gone in a generation that was found again")
	}
}

func generationOther[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	c.apply(t, c.claim(t, name), projector.Checkpoint{}, c.put("a", "live", at(1)))
	for _, tag := range []string{"one", "two", "one"} {
		g := c.next(t, tag)
		c.reads(g, "a", "", "in a generation of tag "+tag+" after one of another tag")
		if s := c.state(g, name); s != (projector.State{}) {
			c.failf("a generation of tag %s begins with the state %+v, left by another one", tag, s)
		}
		claim := c.claim(g, name)
		c.apply(g, claim, projector.Checkpoint{}, c.put("a", tag, at(7)))
		c.ok(g.Release(c.ctx, claim), "release")
		c.closeNext(g)
	}
	c.reads(t, "a", "live", "in the live generation, after others were dropped")
}

// compare has the generations compared where a rebuild does it, and does not
// switch.
func (c *env[Tx]) compare(g projector.Generation[Tx]) (all projector.Difference) {
	var differences []projector.Difference
	var err error
	c.is(g.Switch(c.ctx, func(ctx context.Context) error {
		differences, err = g.Compare(ctx)
		return errWork
	}), errWork, "switch that is not ready")
	c.ok(err, "compare")
	for _, d := range differences {
		if d.Table == "" || d.Live < 0 || d.Next < 0 || d.Live+d.Next == 0 || len(d.Examples) == 0 {
			c.failf("a difference has a table, rows and an example; this is %+v", d)
		}
		all.Live, all.Next, all.Examples = all.Live+d.Live, all.Next+d.Next, append(all.Examples, d.Examples...)
	}
	return all
}

func generationCompares[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	live := c.claim(t, name)
	write := func(t projector.Target[Tx], claim projector.Claim, key, value string) {
		c.stay(t, claim, func(b projector.Batch[Tx]) error { return c.Put(b.Tx(), key, value) })
	}
	g := c.next(t, "one")
	claim := c.claim(g, name)
	is := func(when string, live, next bool) {
		if d := c.compare(g); d.Live > 0 != live || d.Next > 0 != next {
			c.failf("%s the differences are %+v", when, d)
		}
	}
	is("with two empty models", false, false)
	write(t, live, "a", "1")
	is("with a value that is missing in the new generation", true, false)
	write(g, claim, "a", "1")
	is("with the same value in both", false, false)
	write(g, claim, "b", "1")
	is("with a value that only the new generation has", false, true)
	write(t, live, "b", "2")
	if d := c.compare(g); d.Live+d.Next == 0 {
		c.failf("with a value that is another one in the new generation no difference is found")
	}
	write(t, live, "b", "1")
	is("with the same values in both", false, false)
}

func generationsDropped[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	drop := func(want int, when string) {
		n, err := t.Drop(c.ctx)
		c.ok(err, "drop "+when)
		if n != want {
			c.failf("drop %s: %d generations were dropped, want %d", when, n, want)
		}
	}
	c.apply(t, c.claim(t, name), projector.Checkpoint{}, c.put("a", "1", at(1)))
	drop(0, "with only the live one")
	for i := range 2 {
		g := c.next(t, fmt.Sprint("tag ", i))
		c.apply(g, c.claim(g, name), projector.Checkpoint{}, c.put("a", fmt.Sprint(i+2), at(1)))
		c.ok(g.Switch(c.ctx, ready), "switch")
		c.closeNext(g)
	}
	g := c.next(t, "being built")
	claim := c.claim(g, name)
	c.apply(g, claim, projector.Checkpoint{}, c.put("a", "4", at(1)))
	drop(2, "with two old ones, and one that is being built")
	drop(0, "once more")
	c.reads(t, "a", "3", "after others were dropped")
	c.reads(g, "a", "4", "in the one that is being built, after others were dropped")
	c.apply(g, claim, at(1), c.put("a", "5", at(2)))
	c.apply(t, c.claim(t, name), at(1), c.put("a", "6", at(2)))
}

func generationEnded[Tx any](c *env[Tx]) {
	t := c.generations(c.open())
	g := c.next(t, "one")
	_, err := t.Names(ended())
	c.is(err, context.Canceled, "names")
	_, err = t.Next(ended(), "two")
	c.is(err, context.Canceled, "next")
	_, err = t.Drop(ended())
	c.is(err, context.Canceled, "drop")
	_, err = g.Compare(ended())
	c.is(err, context.Canceled, "compare")
	c.is(g.Switch(ended(), ready), context.Canceled, "switch")
	c.apply(g, c.claim(g, name), projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.reads(t, "a", "", "after a switch with an ended context")
}
