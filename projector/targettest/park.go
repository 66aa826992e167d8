package targettest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

func parkCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"parked-comes-back-whole", 0, parkedWhole[Tx]},
		{"parked-is-in-order", 0, parkedOrder[Tx]},
		{"parked-by-each-key", 0, parkedKeys[Tx]},
		{"parked-is-exchanged", 0, parkedExchange[Tx]},
		{"parked-is-seen-by-its-batch", 0, parkedOwn[Tx]},
		{"parked-is-not-seen-before-the-end", 0, parkedHidden[Tx]},
		{"parked-goes-with-what-failed", 0, parkedRolledBack[Tx]},
		{"parked-per-name", 0, parkedApart[Tx]},
		{"parked-outlives-its-owner", 0, parkedTakeover[Tx]},
		{"parked-is-counted", 0, parkedCounted[Tx]},
		{"settled-is-kept", 0, settledKept[Tx]},
		{"settle-what-does-not-wait", 0, settleNot[Tx]},
		{"parked-reopened", durable, parkedReopened[Tx]},
	}
}

func parkedWhole[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	full, least := aParked(pos(1), "a", "b"), projector.Parked{Keys: []string{"c"}, Since: aParked(pos(1)).Since}
	full.Due, full.Discard, full.Replay = full.Since.Add(time.Hour), "no\n'\"% ä", true
	least.Record = aParked(pos(2)).Record
	least.Record.Metadata.Custom = nil
	for _, p := range []projector.Parked{full, least} {
		at := p.Record.Position
		c.park(t, claim, p)
		c.same(c.listed(t, name, projector.ParkedQuery{After: at.Prev()}, "after it was parked", at)[0], p, "Parked")
		c.stay(t, claim, func(b projector.Batch[Tx]) error {
			got, found, err := b.ParkedAt(at)
			if err != nil || !found {
				return fmt.Errorf("ParkedAt %s: found %v, %w", at, found, err)
			}
			c.same(got, p, "ParkedAt")
			got, found, err = b.FirstParked(p.Keys[0])
			if err != nil || !found {
				return fmt.Errorf("FirstParked of %q: found %v, %w", p.Keys[0], found, err)
			}
			c.same(got, p, "FirstParked")
			return nil
		})
	}
}

// parkedPlaces are in order, which is another one than that of their texts, and
// of the signed numbers of the same bits.
func parkedPlaces() []consistency.Position {
	return []consistency.Position{pos(9), pos(10), pos(math.MaxInt64), pos(1 << 63), pos(math.MaxUint64), consistency.NewPosition(1, 3), consistency.NewPosition(10, 2)}
}

func parkedOrder[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	places := parkedPlaces()
	for _, i := range []int{4, 1, 6, 0, 3, 5, 2} {
		c.park(t, claim, aParked(places[i], "k"))
	}
	c.listed(t, name, projector.ParkedQuery{}, "parked in another order", places...)
	for i, p := range places {
		c.keyIs(t, claim, "k", p, "parked in another order")
		c.settle(t, claim, p, projector.Applied, "")
		c.listed(t, name, projector.ParkedQuery{}, "after the first was settled", places[i+1:]...)
	}
	c.keyIs(t, claim, "k", consistency.Position{}, "after all were settled")
	c.listed(t, name, projector.ParkedQuery{Settled: true}, "all settled", places...)
}

func parkedKeys[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	zero := consistency.Position{}
	c.keyIs(t, claim, "b", zero, "before anything is parked")
	c.park(t, claim, aParked(pos(5), "a", "b'\"%_", "c"), aParked(pos(7), "c", "d"))
	for key, want := range map[string]consistency.Position{
		"a": pos(5), "b'\"%_": pos(5), "c": pos(5), "d": pos(7),
		"A": zero, "": zero, "b": zero, "%": zero, "b'\"%": zero, "b'\"%x": zero, "a ": zero,
	} {
		c.keyIs(t, claim, key, want, "two are parked")
	}
	c.stay(t, claim, func(b projector.Batch[Tx]) error {
		for _, ask := range []struct {
			keys []string
			want bool
		}{{nil, false}, {[]string{"x", "y"}, false}, {[]string{"d", "x"}, true}, {[]string{"x", "d"}, true}, {[]string{"a", "d"}, true}} {
			if is, err := b.IsParked(ask.keys); err != nil || is != ask.want {
				return fmt.Errorf("IsParked of keys %q is %v, %w", ask.keys, is, err)
			}
		}
		return nil
	})
	c.settle(t, claim, pos(5), projector.Discarded, "why")
	for key, want := range map[string]consistency.Position{"a": zero, "b'\"%_": zero, "c": pos(7), "d": pos(7)} {
		c.keyIs(t, claim, key, want, "the first of two was settled")
	}
}

func parkedExchange[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.park(t, claim, aParked(pos(9), "a", "k"), aParked(pos(10), "k"))
	other := aParked(pos(9), "b", "k")
	other.Failed, other.Attempts, other.Error, other.Last = false, 8, "another one", other.Last.Add(time.Hour)
	other.Due, other.Discard = other.Since.Add(time.Minute), "why"
	c.park(t, claim, other)
	c.same(c.listed(t, name, projector.ParkedQuery{}, "after an exchange", pos(9), pos(10))[0], other, "after an exchange")
	if n := c.state(t, name).Parked; n != 2 {
		c.failf("after an exchange %d wait, want 2", n)
	}
	for key, want := range map[string]consistency.Position{"a": {}, "b": pos(9), "k": pos(9)} {
		c.keyIs(t, claim, key, want, "after an exchange")
	}
	c.settle(t, claim, pos(9), projector.Applied, "")
	c.keyIs(t, claim, "b", consistency.Position{}, "after the exchanged one was settled")
	c.keyIs(t, claim, "k", pos(10), "after the exchanged one was settled")
}

func parkedOwn[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.park(t, claim, aParked(pos(10), "k"), aParked(pos(12), "k"))
	c.stay(t, claim, func(b projector.Batch[Tx]) error {
		step := func(do error, want consistency.Position, when string) error {
			return errors.Join(do, isParked(b, "k", want, "in its batch, "+when))
		}
		if err := errors.Join(
			step(b.Park(aParked(pos(11), "k")), pos(10), "with one parked between two"),
			step(b.Park(aParked(pos(9), "k", "l")), pos(9), "with one parked before all"),
			step(b.Park(aParked(pos(9), "l")), pos(10), "with that one exchanged"),
			isParked(b, "l", pos(9), "in its batch, with that one exchanged"),
			step(b.Settle(pos(10), projector.Applied, ""), pos(11), "with the first settled"),
			step(b.Settle(pos(11), projector.Discarded, "why"), pos(12), "with its own one settled"),
		); err != nil {
			return err
		}
		for at, want := range map[consistency.Position]bool{pos(8): false, pos(9): true, pos(10): false, pos(11): false, pos(12): true} {
			if _, found, err := b.ParkedAt(at); err != nil || found != want {
				return fmt.Errorf("in its batch: ParkedAt %s is %v, %w", at, found, err)
			}
		}
		if err := b.Settle(pos(10), projector.Applied, ""); !errors.Is(err, projector.ErrNotParked) {
			return fmt.Errorf("in its batch: settled twice: %w", err)
		}
		return nil
	})
	c.listed(t, name, projector.ParkedQuery{}, "after such a batch", pos(9), pos(12))
	c.listed(t, name, projector.ParkedQuery{Settled: true}, "after such a batch", pos(10), pos(11))
}

func parkedHidden[Tx any](c *env[Tx]) {
	t := c.open()
	c.needsExactly(t)
	claim := c.claim(t, name)
	c.park(t, claim, aParked(pos(2), "k"))
	written, looked, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- t.Apply(c.ctx, claim, projector.Checkpoint{}, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			err := errors.Join(b.Park(aParked(pos(1), "k")), b.Settle(pos(2), projector.Applied, ""))
			close(written)
			<-looked
			return at(2), err
		})
	}()
	<-written
	err := protect(func() {
		c.listed(t, name, projector.ParkedQuery{}, "while a batch runs", pos(2))
		if n := c.state(t, name).Parked; n != 1 {
			c.failf("while a batch runs %d wait, want 1", n)
		}
	})
	close(looked)
	c.ok(errors.Join(err, <-ended), "a look at what is parked while a batch runs")
	c.listed(t, name, projector.ParkedQuery{}, "after the batch", pos(1))
}

func parkedRolledBack[Tx any](c *env[Tx]) {
	t := c.open()
	c.needsExactly(t)
	claim := c.claim(t, name)
	was := aParked(pos(2), "k")
	c.park(t, claim, was)
	for _, how := range []string{"failed", "panicked"} {
		func() {
			defer func() { _ = recover() }()
			_ = t.Apply(c.ctx, claim, projector.Checkpoint{}, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
				other := aParked(pos(2), "l")
				err := errors.Join(b.Park(other), b.Park(aParked(pos(1), "k")), b.Settle(pos(2), projector.Applied, ""), errWork)
				if how == "panicked" {
					panic(err)
				}
				return at(2), err
			})
		}()
		c.same(c.listed(t, name, projector.ParkedQuery{}, "after a batch that "+how, pos(2))[0], was, "after a batch that "+how)
		c.listed(t, name, projector.ParkedQuery{Settled: true}, "after a batch that "+how)
		c.keyIs(t, claim, "k", pos(2), "after a batch that "+how)
		c.keyIs(t, claim, "l", consistency.Position{}, "after a batch that "+how)
	}
}

func parkedApart[Tx any](c *env[Tx]) {
	t := c.open()
	c.park(t, c.claim(t, name), aParked(pos(1), "k"))
	for _, other := range []projector.Name{{Projector: "other", Boundary: name.Boundary}, {Projector: name.Projector, Boundary: "other"}} {
		when := fmt.Sprintf("parked under %s and looked at under %s", name, other)
		c.listed(t, other, projector.ParkedQuery{}, when)
		claim := c.claim(t, other)
		c.keyIs(t, claim, "k", consistency.Position{}, when)
		if s := c.state(t, other); s.Parked != 0 {
			c.failf("%s: %d wait", when, s.Parked)
		}
		c.is(t.Ask(c.ctx, other, pos(1), ""), projector.ErrNotParked, "ask for one that is parked under another name")
		c.park(t, claim, aParked(pos(1), "l"))
		c.settle(t, claim, pos(1), projector.Applied, "")
	}
	c.listed(t, name, projector.ParkedQuery{}, "after one at the same position was settled under another name", pos(1))
}

func parkedTakeover[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.park(t, old, aParked(pos(1), "k"), aParked(pos(2), "k"))
	c.settle(t, old, pos(1), projector.Discarded, "why")
	c.ok(t.Release(c.ctx, old), "release")
	claim := c.claim(t, name)
	c.keyIs(t, claim, "k", pos(2), "under a new owner")
	c.listed(t, name, projector.ParkedQuery{Settled: true}, "under a new owner", pos(1))
	c.is(t.Apply(c.ctx, old, projector.Checkpoint{}, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		return projector.Checkpoint{}, errors.Join(b.Park(aParked(pos(3), "k")), b.Settle(pos(2), projector.Applied, ""))
	}), projector.ErrTakenOver, "park and settle by an older epoch")
	c.listed(t, name, projector.ParkedQuery{}, "after an older epoch parked and settled", pos(2))
}

func parkedCounted[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	due := func(p projector.Parked, minutes int) projector.Parked {
		p.Due = p.Since.Add(time.Duration(minutes) * time.Minute)
		return p
	}
	is := func(n, minutes int, when string) {
		want := time.Time{}
		if minutes > 0 {
			want = due(aParked(pos(1)), minutes).Due
		}
		if s := c.state(t, name); s.Parked != n || s.Due != want {
			c.failf("%s: %d wait and the earliest Due is %v, want %d and %v", when, s.Parked, s.Due, n, want)
		}
	}
	is(0, 0, "before anything is parked")
	c.park(t, claim, aParked(pos(1), "k"))
	is(1, 0, "with one that has no Due")
	c.park(t, claim, due(aParked(pos(2), "k"), 8), due(aParked(pos(3), "k"), 7), due(aParked(pos(4), "k"), 9))
	is(4, 7, "with three that have a Due")
	c.park(t, claim, due(aParked(pos(3), "k"), 20))
	is(4, 8, "with the earliest put off")
	c.settle(t, claim, pos(2), projector.Applied, "")
	is(3, 9, "with the earliest settled")
	c.park(t, claim, aParked(pos(3), "k"), aParked(pos(4), "k"))
	is(3, 0, "with no Due any more")
	for n := range uint64(3) {
		c.settle(t, claim, []consistency.Position{pos(4), pos(1), pos(3)}[n], projector.Discarded, "why")
	}
	is(0, 0, "with all settled")
}

func settledKept[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	applied, discarded := aParked(pos(9), "k"), aParked(pos(10), "k", "l")
	c.park(t, claim, discarded, applied)
	c.settle(t, claim, pos(10), projector.Discarded, "why\n'\"% ä")
	c.settle(t, claim, pos(9), projector.Applied, "")
	applied.Outcome, discarded.Outcome, discarded.Reason = projector.Applied, projector.Discarded, "why\n'\"% ä"
	c.listed(t, name, projector.ParkedQuery{}, "with all settled")
	c.listed(t, name, projector.ParkedQuery{Settled: true, Key: "l"}, "with all settled", pos(10))
	for i, got := range c.listed(t, name, projector.ParkedQuery{Settled: true}, "with all settled", pos(9), pos(10)) {
		c.clock(got.Settled, "Settled")
		got.Settled = time.Time{}
		c.same(got, []projector.Parked{applied, discarded}[i], "after it was settled")
	}
}

func settleNot[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.park(t, claim, aParked(pos(9), "k"))
	c.settle(t, claim, pos(9), projector.Discarded, "why")
	for _, at := range []consistency.Position{pos(9), pos(10), {}} {
		c.stay(t, claim, func(b projector.Batch[Tx]) error {
			c.is(b.Settle(at, projector.Applied, ""), projector.ErrNotParked, fmt.Sprintf("settle at %s, where none waits", at))
			if _, found, err := b.ParkedAt(at); found || err != nil {
				return fmt.Errorf("ParkedAt %s, where none waits: found %v, %w", at, found, err)
			}
			return nil
		})
	}
	if got := c.list(t, name, projector.ParkedQuery{Settled: true}); len(got) != 1 || got[0].Outcome != projector.Discarded || got[0].Reason != "why" {
		c.failf("settle where none waits has changed what is settled to %+v", got)
	}
}

func parkedReopened[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	p := aParked(pos(2), "k")
	c.park(t, old, aParked(pos(1), "k"), p)
	c.settle(t, old, pos(1), projector.Discarded, "why")
	c.stay(t, old, func(b projector.Batch[Tx]) error { b.Count(3, 4); return b.Done(id("x"), pos(1)) })
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(5)))
	c.ok(t.Ask(c.ctx, name, pos(2), "off with it"), "ask")
	p.Due, p.Discard = time.Unix(0, 0).UTC(), "off with it"
	want := c.state(t, name)
	c.close(t)
	closed := time.Now()
	t = c.open()
	const when = "after the target was opened again"
	claim := c.takeOver(t, closed)
	want.Epoch = claim.Epoch
	if s := c.state(t, name); s != want {
		c.failf("%s the state is %+v, it was %+v", when, s, want)
	}
	c.same(c.listed(t, name, projector.ParkedQuery{}, when, pos(2))[0], p, when)
	if got := c.listed(t, name, projector.ParkedQuery{Settled: true}, when, pos(1))[0]; got.Reason != "why" || got.Settled.IsZero() {
		c.failf("%s what was settled is %+v", when, got)
	}
	c.keyIs(t, claim, "k", pos(2), when)
	c.stay(t, claim, func(b projector.Batch[Tx]) error { return b.Forget(pos(1)) })
	if c.seen(t, claim, id("x")) {
		c.failf("%s the position of a mark is gone", when)
	}
}
