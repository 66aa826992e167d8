package targettest

import (
	"context"
	"errors"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

// twoGenerations writes a = live at 8 and a = next at 5, and claims both.
func (c *env[Tx]) twoGenerations() (t projector.Generations[Tx], g projector.Generation[Tx], live, next projector.Claim) {
	t = c.generations(c.open())
	for range 2 { // so that the epochs are not the same ones
		live = c.claim(t, name)
		c.ok(t.Release(c.ctx, live), "release")
	}
	live = c.claim(t, name)
	c.apply(t, live, projector.Checkpoint{}, c.put("a", "live", at(8), id("x")))
	g = c.next(t, "one")
	next = c.claim(g, name)
	c.apply(g, next, projector.Checkpoint{}, c.put("a", "next", at(5), id("y")))
	return t, g, live, next
}

func switchAll[Tx any](c *env[Tx]) {
	t, g, live, next := c.twoGenerations()
	targets := []projector.Target[Tx]{t}
	if c.f.Shared {
		targets = append(targets, c.open())
	}
	c.ok(t.Fail(c.ctx, live, aFailure(9)), "fail")
	c.park(t, live, aParked(pos(1), "k"))
	c.park(g, next, aParked(pos(2), "l"), aParked(pos(3), "l"))
	c.settle(g, next, pos(3), projector.Discarded, "why")
	c.ok(t.Ask(c.ctx, name, consistency.Position{}, ""), "ask")
	asked, want := c.state(t, name).Asked, c.state(g, name)
	c.ok(g.Switch(c.ctx, ready), "switch")
	c.closeNext(g)
	for _, t := range append(targets, c.reopen()...) {
		c.reads(t, "a", "next", "after a switch")
		s := c.state(t, name)
		if s.Held || s.Epoch <= max(live.Epoch, next.Epoch) {
			c.failf("after a switch the epoch is %d (held: %v), it must be above those of both, %d and %d", s.Epoch, s.Held, live.Epoch, next.Epoch)
		}
		if s.Asked < asked {
			c.failf("after a switch Asked has gone back from %d to %d", asked, s.Asked)
		}
		if s.Held, s.Epoch, s.Asked = want.Held, want.Epoch, want.Asked; s != want {
			c.failf("after a switch the state is %+v, in the new generation it was %+v", s, want)
		}
		c.listed(t, name, projector.ParkedQuery{}, "after a switch", pos(2))
		c.listed(t, name, projector.ParkedQuery{Settled: true}, "after a switch", pos(3))
		claim := c.claim(t, name)
		if c.seen(t, claim, id("x")) || !c.seen(t, claim, id("y")) {
			c.failf("after a switch the marks are not those of the new generation")
		}
		c.ok(t.Release(c.ctx, claim), "release")
	}
	g = c.next(t, "one")
	c.reads(g, "a", "", "in the next generation of a tag that was switched to")
	c.checkpointIs(g, name, projector.Checkpoint{}, "in the next generation of a tag that was switched to")
}

// reopen opens the target once more, where that can be.
func (c *env[Tx]) reopen() []projector.Target[Tx] {
	if !c.f.Shared {
		return nil
	}
	return []projector.Target[Tx]{c.open()}
}

func switchClaims[Tx any](c *env[Tx]) {
	t, g, live, next := c.twoGenerations()
	only := projector.Name{Projector: "only", Boundary: "live"}
	left := c.claim(t, only)
	c.ok(g.Switch(c.ctx, ready), "switch")
	for _, old := range []projector.Claim{live, next, left} {
		from := c.state(t, old.Name).Checkpoint
		c.is(t.Apply(c.ctx, old, from, c.put("a", "old", at(9))), projector.ErrTakenOver, "apply of a claim from before the switch")
		c.is(t.Fail(c.ctx, old, aFailure(9)), projector.ErrTakenOver, "fail of a claim from before the switch")
	}
	c.reads(t, "a", "next", "after a batch of a claim from before the switch")
	for _, old := range []projector.Claim{live, next, left} {
		c.ok(t.Release(c.ctx, old), "release of a claim from before the switch")
	}
	if claim := c.claim(t, name); claim.Epoch <= max(live.Epoch, next.Epoch) {
		c.failf("epoch %d after the switch, before it they were %d and %d", claim.Epoch, live.Epoch, next.Epoch)
	}
	if claim := c.claim(t, only); claim.Epoch <= left.Epoch {
		c.failf("epoch %d after the switch of a name that only the old generation had, before it was %d", claim.Epoch, left.Epoch)
	}
}

func switchNotReady[Tx any](c *env[Tx]) {
	t, g, live, next := c.twoGenerations()
	before, building := c.state(t, name), c.state(g, name)
	c.is(g.Switch(c.ctx, func(context.Context) error { return errWork }), errWork, "switch that is not ready")
	const when = "after a switch that was not ready"
	if s := c.state(t, name); s != before {
		c.failf("%s the state is %+v, it was %+v", when, s, before)
	}
	if s := c.state(g, name); s != building {
		c.failf("%s the state of the new generation is %+v, it was %+v", when, s, building)
	}
	c.reads(t, "a", "live", when)
	c.reads(g, "a", "next", when+", in the new generation")
	c.apply(t, live, at(8), c.put("a", "live on", at(9)))
	c.apply(g, next, at(5), c.put("a", "next on", at(6)))
	c.reads(t, "a", "live on", when)
	c.ok(g.Switch(c.ctx, ready), "a second switch, that is ready")
	c.reads(t, "a", "next on", "after a second switch, that was ready")
}

// switchHolds looks at the live generation, writes to the new one and tries to
// write to the live one while ready runs.
func switchHolds[Tx any](c *env[Tx]) {
	t, g, live, next := c.twoGenerations()
	ended := make(chan error, 1)
	c.ok(g.Switch(c.ctx, func(context.Context) error {
		return protect(func() {
			c.reads(t, "a", "live", "while a switch gets ready")
			c.checkpointIs(t, name, at(8), "while a switch gets ready")
			c.apply(g, next, at(5), c.put("b", "next", at(6)))
			go func() { ended <- t.Apply(c.ctx, live, at(8), c.put("a", "late", at(9))) }()
			select {
			case err := <-ended:
				if ended <- err; err == nil {
					c.failf("a batch was committed to the live generation while a switch got ready")
				}
			case <-time.After(short):
			}
			if c.exactly(t) {
				c.reads(t, "a", "live", "while a switch gets ready and a batch waits")
			}
			c.checkpointIs(t, name, at(8), "while a switch gets ready and a batch waits")
		})
	}), "switch")
	if err := <-ended; err == nil {
		c.failf("a batch that began while a switch got ready says that it was committed")
	}
	c.reads(t, "a", "next", "after a switch that held a batch up")
	c.reads(t, "b", "next", "after a switch that held a batch up")
	c.checkpointIs(t, name, at(6), "after a switch that held a batch up")
	c.is(t.Apply(c.ctx, live, at(6), c.put("a", "late", at(9))), projector.ErrTakenOver, "the same batch again")
	c.apply(t, c.claim(t, name), at(6), c.put("a", "on", at(7)))
}

// switchOneStep reads all the time: a state and a value that were read between
// two equal states belong together.
func switchOneStep[Tx any](c *env[Tx]) {
	t, g, _, _ := c.twoGenerations()
	stop, looked := make(chan struct{}), make(chan error, 1)
	go func() {
		looked <- protect(func() {
			for {
				before := c.state(t, name)
				got, _, err := c.Read(t, "a")
				c.ok(err, "read")
				want := map[projector.Checkpoint]string{at(8): "live", at(5): "next"}[before.Checkpoint]
				if after := c.state(t, name); before == after && got != want {
					c.failf("in the middle of a switch the model holds %q while the checkpoint is %v", got, before.Checkpoint)
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond / 4):
				}
			}
		})
	}()
	err := g.Switch(c.ctx, ready)
	close(stop)
	c.ok(errors.Join(err, <-looked), "switch")
}

func switchWakes[Tx any](c *env[Tx]) {
	t, g, _, _ := c.twoGenerations()
	seen := c.state(t, name)
	did := make(chan error, 1)
	go func() { did <- g.Switch(c.ctx, ready) }()
	c.until(t, name, "the switch", func(s projector.State) bool { return s.Checkpoint == at(5) })
	c.ok(<-did, "switch")
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	c.ok(t.Wait(ctx, name, seen), "wait with a state from before the switch: it must return at once")
}
