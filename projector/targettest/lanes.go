package targettest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/projector"
)

// The cases of a target that is a [projector.LaneTarget].
func laneCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"lane-commits-all-but-the-checkpoint", 0, laneCommits[Tx]},
		{"lanes-run-side-by-side", 0, lanesTogether[Tx]},
		{"lane-shows-nothing-before-its-end", 0, laneHides[Tx]},
		{"lane-sees-what-was-committed", 0, laneSees[Tx]},
		{"lane-that-failed-leaves-nothing", 0, laneError[Tx]},
		{"lane-that-read-what-changed", 0, laneOutOfDate[Tx]},
		{"lanes-mark-the-same", 0, lanesMark[Tx]},
		{"lane-of-an-old-claim", 0, laneOld[Tx]},
		{"lane-taken-over-inside-its-work", freeWriter, laneTakenOver[Tx]},
		{"apply-runs-beside-lanes", 0, laneBesideApply[Tx]},
		{"race-of-lanes", 0, raceLanes[Tx]},
		{"lane-with-an-ended-context", 0, laneEnded[Tx]},
		{"lane-closed", closes, laneClosed[Tx]},
	}
}

func (c *env[Tx]) lanes(t projector.Target[Tx]) projector.LaneTarget[Tx] {
	l, ok := t.(projector.LaneTarget[Tx])
	if !ok {
		panic(skipped("the target has no lanes"))
	}
	return l
}

// laneWork is put for a lane.
func (c *env[Tx]) laneWork(key, value, mark string) func(projector.Batch[Tx]) error {
	work := c.put(key, value, at(1), id(mark))
	return func(b projector.Batch[Tx]) error {
		_, err := work(b)
		return err
	}
}

// soon bounds a wait for what has to come at once.
func (c *env[Tx]) soon(ch <-chan struct{}, what string) error {
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-ch:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s does not come", what)
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func laneCommits[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(5)))
	c.park(t, claim, aParked(pos(1), "k"))
	c.ok(t.Fail(c.ctx, claim, aFailure(6)), "fail")
	want := c.state(t, name)
	c.tick()
	c.ok(t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
		b.Count(2, 1)
		return errors.Join(c.laneWork("b", "2", "x")(b), b.Park(aParked(pos(2), "l")), b.Settle(pos(1), projector.Applied, ""))
	}), "lane")
	want.Applied, want.Skipped, want.Marked = 2, 1, true
	if s := c.state(t, name); s != want {
		c.failf("after a lane the state is %+v, want %+v", s, want)
	}
	c.reads(t, "a", "1", "after a lane")
	c.reads(t, "b", "2", "after a lane")
	c.listed(t, name, projector.ParkedQuery{}, "after a lane", pos(2))
	if !c.seen(t, claim, id("x")) {
		c.failf("after a lane: its mark is not there")
	}
}

// lanesTogether has two lanes that wait for each other inside their work.
func lanesTogether[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	in := []chan struct{}{make(chan struct{}), make(chan struct{})}
	errs := c.together(2, func(i int) error {
		return t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
			close(in[i])
			if err := c.soon(in[1-i], "the other lane"); err != nil {
				return fmt.Errorf("two lanes are not inside their work at once: %w", err)
			}
			return c.laneWork(fmt.Sprint("k", i), "1", fmt.Sprint("x", i))(b)
		})
	})
	c.ok(errors.Join(errs...), "lanes")
	for i := range 2 {
		c.reads(t, fmt.Sprint("k", i), "1", "after two lanes at once")
		if !c.seen(t, claim, id(fmt.Sprint("x", i))) {
			c.failf("after two lanes at once: the mark of lane %d is not there", i)
		}
	}
}

// inLane runs look while a lane stands still at the end of its work.
func (c *env[Tx]) inLane(t projector.LaneTarget[Tx], claim projector.Claim, work func(projector.Batch[Tx]) error, look func()) (laneErr error) {
	written, looked, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
			err := work(b)
			close(written)
			<-looked
			return err
		})
	}()
	err := c.soon(written, "the end of a lane's work")
	if err == nil {
		err = protect(look)
	}
	close(looked)
	laneErr = <-ended
	c.ok(err, "beside a lane")
	return laneErr
}

func (c *env[Tx]) seenByLane(t projector.LaneTarget[Tx], claim projector.Claim, mark string) (seen bool) {
	c.ok(t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) (err error) {
		seen, err = b.Seen(id(mark))
		return err
	}), "a lane that looks")
	return seen
}

func laneHides[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	exactly := c.exactly(t)
	c.ok(c.inLane(t, claim, c.laneWork("a", "1", "x"), func() {
		if !exactly {
			return
		}
		c.reads(t, "a", "", "before a lane's end")
		if c.seenByLane(t, claim, "x") {
			c.failf("another lane sees a mark before the end of the lane that set it")
		}
	}), "lane")
	c.reads(t, "a", "1", "after a lane's end")
	if !c.seenByLane(t, claim, "x") {
		c.failf("another lane does not see a mark after the end of the lane that set it")
	}
}

func laneError[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	c.needsExactly(t)
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	before := c.state(t, name)
	for _, how := range []string{"failed", "panicked"} {
		func() {
			defer func() { _ = recover() }()
			c.is(t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
				b.Count(1, 1)
				err := errors.Join(c.laneWork("a", "2", "x")(b), b.Park(aParked(pos(1), "k")), errWork)
				if how == "panicked" {
					panic(err)
				}
				return err
			}), errWork, "lane whose work fails")
		}()
		if s := c.state(t, name); s != before {
			c.failf("after a lane that %s the state is %+v, it was %+v", how, s, before)
		}
		c.reads(t, "a", "1", "after a lane that "+how)
	}
	c.unchanged(t, claim, "after lanes that failed")
}

func laneOld[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.ok(t.Release(c.ctx, old), "release")
	c.is(t.Lane(c.ctx, old, c.laneWork("a", "2", "x")), projector.ErrTakenOver, "lane of a released claim")
	claim := c.claim(t, name)
	c.is(t.Lane(c.ctx, old, c.laneWork("a", "2", "x")), projector.ErrTakenOver, "lane of an older epoch")
	c.unchanged(t, claim, "after lanes of an old claim")
}

func laneTakenOver[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1)))
	var claim projector.Claim
	c.is(c.inLane(t, old, c.laneWork("a", "2", "x"), func() {
		c.ok(t.Release(c.ctx, old), "release")
		claim = c.claim(t, name)
		c.apply(t, claim, at(1), c.put("c", "3", at(1))) // the lane holds nobody up
	}), projector.ErrTakenOver, "lane that was taken over inside its work")
	c.rolledBack(t, claim, "after a lane that was taken over")
}

func laneBesideApply[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	apply := func(from, to projector.Checkpoint) {
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		defer cancel()
		c.ok(t.Apply(ctx, claim, from, c.put("b", to.Position.String(), to)), "apply while a lane is inside its work")
	}
	c.ok(c.inLane(t, claim, c.laneWork("a", "1", "x"), func() { apply(projector.Checkpoint{}, at(1)) }), "lane beside which the checkpoint moved")
	c.checkpointIs(t, name, at(1), "after apply beside a lane")
	c.reads(t, "a", "1", "after apply beside a lane")
	c.reads(t, "b", pos(1).String(), "after apply beside a lane")
	c.apply(t, claim, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		defer cancel()
		if err := t.Lane(ctx, claim, c.laneWork("c", "1", "y")); err != nil {
			return at(2), fmt.Errorf("lane while apply is inside its work: %w", err)
		}
		return at(2), c.Put(b.Tx(), "d", "1")
	})
	c.checkpointIs(t, name, at(2), "after apply around a lane")
	c.reads(t, "c", "1", "after apply around a lane")
	c.reads(t, "d", "1", "after apply around a lane")
}

// raceLanes has lanes and an Apply add to one number; whichever fails is run
// again.
func raceLanes[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	c.needsExactly(t)
	claim := c.claim(t, name)
	const workers, rounds = 4, 8
	again := func(do func() error) (err error) {
		for range 500 {
			if err = do(); !errors.Is(err, projector.ErrCollided) || c.ctx.Err() != nil {
				return err
			}
		}
		return fmt.Errorf("it cannot be committed, however often it is run: %w", err)
	}
	errs := c.together(workers, func(i int) error {
		for r := range uint64(rounds) {
			do := func() error {
				return t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
					_, err := c.add("sum", at(1))(b)
					return err
				})
			}
			if i == 0 {
				do = func() error { return t.Apply(c.ctx, claim, c.state(t, name).Checkpoint, c.add("sum", at(r+1))) }
			}
			if err := again(do); err != nil {
				return err
			}
		}
		return nil
	})
	c.ok(errors.Join(errs...), "lanes and batches at once")
	c.reads(t, "sum", fmt.Sprint(workers*rounds), "after lanes at once, each adding 1 to what it read")
}

// laneSees has a lane begin, and another one end before the first looks.
func laneSees[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	c.ok(t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
		ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
		defer cancel()
		if err := t.Lane(ctx, claim, func(b projector.Batch[Tx]) error {
			return errors.Join(c.laneWork("a", "1", "x")(b), b.Park(aParked(pos(3), "k")))
		}); err != nil {
			return fmt.Errorf("a lane while another one is inside its work: %w", err)
		}
		value, found, err := c.Get(b.Tx(), "a")
		if err != nil || !found || value != "1" {
			return fmt.Errorf("a lane that is inside its work does not see what another one has committed: %q, found %v, %w", value, found, err)
		}
		if seen, err := b.Seen(id("x")); err != nil || !seen {
			return fmt.Errorf("a lane that is inside its work does not see what another one has marked: %w", err)
		}
		return isParked(b, "k", pos(3), "parked by another lane while this one is inside its work")
	}), "lane")
}

// short is time enough for what nothing holds up.
const short = 200 * time.Millisecond

// laneOutOfDate has work fail that has read what another lane changed then.
// Where reading holds the other one up, there is nothing to see.
func laneOutOfDate[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	c.needsExactly(t)
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	for _, key := range []string{"a", "missing"} {
		changed, did := false, make(chan error, 1)
		err := t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
			_, _, err := c.Get(b.Tx(), key)
			c.ok(err, "read")
			go func() { did <- t.Lane(c.ctx, claim, c.laneWork(key, "2", "of "+key)) }()
			select {
			case err := <-did:
				did <- err
				changed = err == nil
			case <-time.After(short):
			}
			return errWork
		})
		c.ok(<-did, "a lane that changes what another one has read")
		if changed {
			c.is(err, projector.ErrCollided, "lane whose work fails after it read what was changed then")
		} else {
			c.is(err, errWork, "lane whose work fails")
		}
		c.reads(t, key, "2", "after two lanes, one of which failed")
	}
}

// lanesMark has two lanes mark the same event before either ends.
func lanesMark[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	in := []chan struct{}{make(chan struct{}), make(chan struct{})}
	marked := []chan struct{}{make(chan struct{}), make(chan struct{})}
	errs := c.together(2, func(i int) error {
		return t.Lane(c.ctx, claim, func(b projector.Batch[Tx]) error {
			close(in[i])
			if err := c.soon(in[1-i], "the other lane"); err != nil {
				return err
			}
			err := c.laneWork(fmt.Sprint("k", i), "1", "x")(b)
			close(marked[i])
			select {
			case <-marked[1-i]:
			case <-time.After(short): // the first mark may hold the second up
			}
			return err
		})
	})
	w := c.one(errs, projector.ErrCollided, "lanes that mark the same event")
	c.reads(t, fmt.Sprint("k", w), "1", "after two lanes that mark the same event")
	if c.exactly(t) {
		c.reads(t, fmt.Sprint("k", 1-w), "", "after two lanes that mark the same event")
	}
}

func laneEnded[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.is(t.Lane(ended(), claim, c.laneWork("a", "2", "x")), context.Canceled, "lane")
	c.unchanged(t, claim, "after a lane with an ended context")
}

func laneClosed[Tx any](c *env[Tx]) {
	t := c.lanes(c.open())
	claim := c.claim(t, name)
	c.close(t)
	c.is(t.Lane(c.ctx, claim, c.laneWork("a", "1", "x")), projector.ErrClosed, "lane")
}
