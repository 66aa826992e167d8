package targettest

import (
	"errors"
	"fmt"
	"math"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

var errWork = errors.New("the handler said no")

func applyCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"apply-commits-all", 0, applyCommits[Tx]},
		{"apply-reads-its-own-writes", 0, applyReadsOwn[Tx]},
		{"apply-shows-nothing-before-its-end", 0, applyHides[Tx]},
		{"apply-error-leaves-nothing", 0, applyError[Tx]},
		{"apply-panic-leaves-nothing", 0, applyPanic[Tx]},
		{"apply-compares-the-checkpoint", 0, applyCompares[Tx]},
		{"apply-never-moves-back", 0, applyForward[Tx]},
		{"apply-may-stay", 0, applyStays[Tx]},
		{"apply-after-takeover", 0, applyTakenOver[Tx]},
		{"apply-after-release", 0, applyReleased[Tx]},
		{"checkpoint-comes-back-as-it-was", 0, checkpointForms[Tx]},
		{"marks-are-per-name", 0, marksApart[Tx]},
		{"names-are-apart", 0, namesApart[Tx]},
	}
}

func applyCommits[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(3), id("x")))
	c.reads(t, "a", "1", "after a batch")
	c.checkpointIs(t, name, at(3), "after a batch")
	if !c.seen(t, claim, id("x")) || c.seen(t, claim, id("y")) {
		c.failf("after a batch: Seen must be true for the event_id that was marked, and for no other")
	}
	c.apply(t, claim, at(3), c.put("a", "2", at(7), id("x"))) // a mark that is there is no matter
	c.reads(t, "a", "2", "after the second batch")
	c.checkpointIs(t, name, at(7), "after the second batch")
	if !c.seen(t, claim, id("x")) {
		c.failf("after the second batch: the mark of the first is gone")
	}
}

func applyReadsOwn[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.apply(t, claim, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		for _, want := range []string{"1", "2", "3"} {
			got, found, err := c.Get(b.Tx(), "a")
			if err != nil || !found || got != want {
				return at(2), fmt.Errorf("the transaction sees %q, want %q: %w", got, want, err)
			}
			if err := c.Put(b.Tx(), "a", fmt.Sprint(want[0]-'0'+1)); err != nil {
				return at(2), err
			}
		}
		if seen, err := b.Seen(id("x")); seen || err != nil {
			return at(2), fmt.Errorf("seen before it was marked: %v, %w", seen, err)
		}
		if err := b.Done(id("x"), at(2).Position); err != nil {
			return at(2), err
		}
		if seen, err := b.Seen(id("x")); !seen || err != nil {
			return at(2), fmt.Errorf("not seen in the batch that marked it: %v, %w", seen, err)
		}
		return at(2), nil
	})
	c.reads(t, "a", "4", "after the batch")
}

func applyHides[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	written, looked, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- t.Apply(c.ctx, claim, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			err := c.Put(b.Tx(), "a", "2")
			close(written)
			<-looked
			return at(2), err
		})
	}()
	<-written
	err := protect(func() {
		if c.exactly(t) {
			c.reads(t, "a", "1", "while a batch runs")
		}
		c.checkpointIs(t, name, at(1), "while a batch runs")
	})
	close(looked)
	c.ok(errors.Join(err, <-ended), "a look at the target while a batch runs")
	c.reads(t, "a", "2", "after the batch")
}

func applyError[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	err := t.Apply(c.ctx, claim, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		_, err := c.put("a", "2", at(2), id("x"))(b)
		return at(2), errors.Join(err, c.Put(b.Tx(), "b", "2"), errWork)
	})
	c.is(err, errWork, "apply whose work fails")
	c.rolledBack(t, claim, "after work failed")
}

func applyPanic[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	func() {
		defer func() { _ = recover() }()
		_ = t.Apply(c.ctx, claim, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			_, err := c.put("a", "2", at(2), id("x"))(b)
			panic(err)
		})
	}()
	c.rolledBack(t, claim, "after work panicked")
}

// rolledBack is unchanged after work that ran: without transactions its effect
// and its marks may be there.
func (c *env[Tx]) rolledBack(t projector.Target[Tx], claim projector.Claim, when string) {
	if c.exactly(t) {
		c.unchanged(t, claim, when)
		return
	}
	c.checkpointIs(t, claim.Name, at(1), when)
	c.apply(t, claim, at(1), c.put("after", when, at(2)))
	c.reads(t, "after", when, when)
}

// unchanged checks that only the first batch, a = 1 at 1, is there, and that
// the target still works.
func (c *env[Tx]) unchanged(t projector.Target[Tx], claim projector.Claim, when string) {
	c.reads(t, "a", "1", when)
	c.reads(t, "b", "", when)
	c.checkpointIs(t, claim.Name, at(1), when)
	if c.seen(t, claim, id("x")) {
		c.failf("%s: its mark is kept", when)
	}
	c.apply(t, claim, at(1), c.put("after", when, at(2)))
	c.reads(t, "after", when, when)
}

func applyCompares[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	otherID := at(1)
	otherID.EventID = id("other")
	for _, from := range []projector.Checkpoint{{}, at(2), otherID} {
		err := t.Apply(c.ctx, claim, from, c.put("a", "2", at(9), id("x")))
		c.is(err, projector.ErrTakenOver, fmt.Sprintf("apply from %v with the checkpoint at %v", from, at(1)))
	}
	c.unchanged(t, claim, "after batches from another checkpoint")
}

func applyForward[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("x", "1", at(10)))
	if t.Apply(c.ctx, claim, at(10), c.put("x", "2", at(9))) == nil { // as text, 9 sorts after 10
		c.failf("a batch moved the checkpoint back from 10 to 9")
	}
	c.checkpointIs(t, name, at(10), "after a batch that went back")
	if c.exactly(t) {
		c.reads(t, "x", "1", "after a batch that went back")
	}
}

func applyStays[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", projector.Checkpoint{}))
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "2", at(1)))
	c.apply(t, claim, at(1), c.put("a", "3", at(1), id("x")))
	c.reads(t, "a", "3", "after a batch that left the checkpoint where it was")
	if !c.seen(t, claim, id("x")) {
		c.failf("the mark of a batch that left the checkpoint where it was is gone")
	}
}

func applyTakenOver[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.ok(t.Release(c.ctx, old), "release")
	claim := c.claim(t, name)
	c.is(t.Apply(c.ctx, old, at(1), c.put("a", "2", at(2), id("x"))), projector.ErrTakenOver, "apply of an older epoch")
	c.is(t.Fail(c.ctx, old, aFailure(2)), projector.ErrTakenOver, "fail of an older epoch")
	if s := c.state(t, name); s.Failure != (projector.Failure{}) {
		c.failf("an older epoch stored a failure: %+v", s.Failure)
	}
	c.unchanged(t, claim, "after a batch of an older epoch")
}

func applyReleased[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.ok(t.Release(c.ctx, old), "release")
	c.is(t.Apply(c.ctx, old, at(1), c.put("a", "2", at(2), id("x"))), projector.ErrTakenOver, "apply of a released claim")
	c.is(t.Fail(c.ctx, old, aFailure(2)), projector.ErrTakenOver, "fail of a released claim")
	c.unchanged(t, c.claim(t, name), "after a batch of a released claim")
}

func checkpointForms[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	from := projector.Checkpoint{}
	for _, p := range []consistency.Position{
		consistency.NewPosition(0, 9), consistency.NewPosition(0, 10), consistency.NewPosition(0, math.MaxInt64+1),
		consistency.NewPosition(0, math.MaxUint64), consistency.NewPosition(1, 0), consistency.NewPosition(math.MaxUint64, math.MaxUint64),
	} {
		for _, to := range []projector.Checkpoint{
			{Position: p}, {Position: p, EventID: id("e")}, {Position: p, EventID: id("e"), Log: id("l")}, {Position: p, Log: id("m")},
		} {
			c.apply(t, claim, from, c.put("a", to.Position.String(), to))
			c.checkpointIs(t, name, to, "after it was stored")
			from = to
		}
	}
}

func marksApart[Tx any](c *env[Tx]) {
	t := c.open()
	c.apply(t, c.claim(t, name), projector.Checkpoint{}, c.put("a", "1", at(1), id("x")))
	for _, other := range []projector.Name{{Projector: "other", Boundary: name.Boundary}, {Projector: name.Projector, Boundary: "other"}} {
		if c.seen(t, c.claim(t, other), id("x")) {
			c.failf("an event_id marked under %s is seen under %s", name, other)
		}
	}
}

// namesApart uses names that run together where they are joined carelessly.
func namesApart[Tx any](c *env[Tx]) {
	t := c.open()
	names := []projector.Name{
		{Projector: "a", Boundary: "b"}, {Projector: "b", Boundary: "a"}, {Projector: "a/b", Boundary: "c"}, {Projector: "a", Boundary: "b/c"},
		{Projector: "A", Boundary: "b"}, {Projector: "a ", Boundary: "b"}, {Projector: "ä%_'\"", Boundary: "b"}, {Projector: "a", Boundary: "B"},
	}
	claims := make([]projector.Claim, len(names))
	for i, n := range names {
		if s := c.state(t, n); s != (projector.State{}) {
			c.failf("the state of %q, never used, is %+v", n, s)
		}
		claims[i] = c.claim(t, n)
		c.apply(t, claims[i], projector.Checkpoint{}, c.put("k", "v", at(uint64(i+1)), uuid.New()))
		c.ok(t.Fail(c.ctx, claims[i], aFailure(uint64(i+2))), "fail")
	}
	for i, n := range names {
		s := c.state(t, n)
		if s.Checkpoint != at(uint64(i+1)) || s.Failure != aFailure(uint64(i+2)) || s.Epoch != claims[i].Epoch || !s.Held {
			c.failf("the state of %q is %+v: other names have changed it", n, s)
		}
	}
	c.ok(t.Release(c.ctx, claims[0]), "release")
	for i, n := range names[1:] {
		if _, err := t.Claim(c.ctx, n); !errors.Is(err, projector.ErrHeld) {
			c.failf("claim of %q after %q was released: %v, want ErrHeld", n, names[0], err)
		}
		c.checkpointIs(t, n, at(uint64(i+2)), "after another name was released")
	}
}
