package targettest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

func stateCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"promise-is-one-of-them", 0, promise[Tx]},
		{"moved-is-when-the-checkpoint-moved", 0, moved[Tx]},
		{"counts-add-up", 0, counts[Tx]},
		{"marks-are-forgotten", 0, marksForgotten[Tx]},
		{"marks-are-forgotten-by-their-batch", 0, marksForgottenAtOnce[Tx]},
	}
}

func promise[Tx any](c *env[Tx]) {
	switch p := c.open().Promise(); p {
	case projector.ExactlyOnce, projector.Converges, projector.AtLeastOnce:
	default:
		c.failf("the promise is %q, it must be one of the constants", p)
	}
}

// clock checks a time that the target has taken of its clock.
func (c *env[Tx]) clock(t time.Time, what string) {
	switch off := time.Since(t).Abs(); {
	case t.IsZero():
		c.failf("%s is zero", what)
	case t.Location() != time.UTC || t != t.Truncate(time.Microsecond):
		c.failf("%s is %v, it must be UTC in whole microseconds", what, t)
	case off > time.Hour:
		c.failf("%s is %v, %s off", what, t, off)
	}
}

// tick lets the clock go on, so that two moments are told apart.
func (c *env[Tx]) tick() { <-time.After(2 * time.Millisecond) }

func moved[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", projector.Checkpoint{}))
	if m := c.state(t, name).Moved; !m.IsZero() {
		c.failf("the checkpoint never moved, but Moved is %v", m)
	}
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "2", at(1)))
	first := c.state(t, name).Moved
	c.clock(first, "Moved")
	c.tick()
	c.apply(t, claim, at(1), c.put("a", "3", at(1)))
	c.ok(t.Fail(c.ctx, claim, aFailure(2)), "fail")
	c.ok(t.Release(c.ctx, claim), "release")
	claim = c.claim(t, name)
	if m := c.state(t, name).Moved; m != first {
		c.failf("Moved is %v after calls that left the checkpoint where it was, it was %v", m, first)
	}
	c.apply(t, claim, at(1), c.put("a", "4", at(2)))
	if m := c.state(t, name).Moved; !m.After(first) {
		c.failf("Moved is %v after the checkpoint moved on, before it was %v", m, first)
	}
}

func counts[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	count := func(fail error) error {
		from := c.state(t, name).Checkpoint
		return t.Apply(c.ctx, claim, from, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			b.Count(2, 0)
			b.Count(1, 1)
			return from, fail
		})
	}
	is := func(applied, skipped int64, when string) {
		if s := c.state(t, name); s.Applied != applied || s.Skipped != skipped {
			c.failf("%s: the counts are %d applied and %d skipped, want %d and %d", when, s.Applied, s.Skipped, applied, skipped)
		}
	}
	c.ok(count(nil), "apply")
	is(3, 1, "after a batch that counts")
	if c.exactly(t) {
		c.is(count(errWork), errWork, "apply whose work fails")
		is(3, 1, "after a batch that counts and fails")
	}
	c.ok(t.Release(c.ctx, claim), "release")
	claim = c.claim(t, name)
	c.ok(count(nil), "apply")
	is(6, 2, "after a second owner's batch")
}

// marksForgotten has positions whose texts are in another order.
func marksForgotten[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	marked := func(want bool, when string) {
		if s := c.state(t, name); s.Marked != want {
			c.failf("%s: Marked is %v", when, s.Marked)
		}
	}
	marked(false, "before the first mark")
	places := []consistency.Position{pos(9), pos(10), pos(11), pos(1 << 63), consistency.NewPosition(1, 2), consistency.NewPosition(1, math.MaxUint64)}
	c.stay(t, claim, func(b projector.Batch[Tx]) error {
		for _, p := range places {
			if err := b.Done(id(p.String()), p); err != nil {
				return err
			}
		}
		return nil
	})
	marked(true, "after a batch that marks")
	forget := func(upTo consistency.Position) func(projector.Batch[Tx]) error {
		return func(b projector.Batch[Tx]) error {
			if err := b.Forget(upTo); err != nil {
				return err
			}
			seen, err := b.Seen(id(upTo.String()))
			if err == nil && seen {
				c.failf("the batch that has dropped the marks up to %s still sees the one there", upTo)
			}
			return err
		}
	}
	if c.exactly(t) {
		from := c.state(t, name).Checkpoint
		c.is(t.Apply(c.ctx, claim, from, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			c.ok(forget(pos(10))(b), "forget")
			return from, errWork
		}), errWork, "apply whose work fails")
		if !c.seen(t, claim, id(pos(10).String())) {
			c.failf("a batch that failed has dropped marks")
		}
	}
	for i := range places {
		if i == 0 || i == 3 {
			continue // with the next one
		}
		c.stay(t, claim, forget(places[i]))
		for j, p := range places {
			if seen := c.seen(t, claim, id(p.String())); seen != (j > i) {
				c.failf("after the marks up to %s were dropped, Seen of the one at %s is %v", places[i], p, seen)
			}
		}
		marked(i < len(places)-1, "after marks were dropped")
	}
}

// marksForgottenAtOnce drops marks in the batch that sets them.
func marksForgottenAtOnce[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	mark := func(n uint64) func(projector.Batch[Tx]) error {
		return func(b projector.Batch[Tx]) error { return b.Done(id(pos(n).String()), pos(n)) }
	}
	c.stay(t, claim, mark(7))
	c.stay(t, claim, func(b projector.Batch[Tx]) error {
		if err := errors.Join(mark(5)(b), mark(9)(b), mark(10)(b), b.Forget(pos(9)), b.Forget(pos(3))); err != nil {
			return err
		}
		for n, want := range map[uint64]bool{5: false, 7: false, 9: false, 10: true} {
			if seen, err := b.Seen(id(pos(n).String())); err != nil || seen != want {
				return fmt.Errorf("in the batch that has dropped the marks up to 9, Seen of the one at %d is %v, %w", n, seen, err)
			}
		}
		return nil
	})
	for n, want := range map[uint64]bool{5: false, 7: false, 9: false, 10: true} {
		if seen := c.seen(t, claim, id(pos(n).String())); seen != want {
			c.failf("after a batch that dropped its own marks up to 9, Seen of the one at %d is %v", n, seen)
		}
	}
}
