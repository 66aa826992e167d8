package targettest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/projector"
)

func raceCases[Tx any]() []testCase[Tx] {
	return []testCase[Tx]{
		{"race-for-a-claim", 0, raceClaim[Tx]},
		{"race-of-batches", 0, raceApply[Tx]},
		{"race-of-names", 0, raceNames[Tx]},
		{"wait-wakes", 0, waitWakes[Tx]},
		{"wait-sees-what-was-before", 0, waitLevel[Tx]},
		{"wait-comes-back", 0, waitReturns[Tx]},
	}
}

// one checks that exactly one call succeeded and the others failed as they must.
func (c *env[Tx]) one(errs []error, want error, doing string) (winner int) {
	winner = -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			c.failf("%s: calls %d and %d both succeeded", doing, winner, i)
		case err == nil:
			winner = i
		default:
			c.is(err, want, doing)
		}
	}
	if winner < 0 {
		c.failf("%s: none of %d calls succeeded: %w", doing, len(errs), errs[0])
	}
	return winner
}

func raceClaim[Tx any](c *env[Tx]) {
	targets := []projector.Target[Tx]{c.open()}
	if c.f.Shared {
		targets = append(targets, c.open())
	}
	epoch := int64(0)
	for range 10 {
		claims := make([]projector.Claim, 8)
		errs := c.together(len(claims), func(i int) (err error) {
			claims[i], err = targets[i%len(targets)].Claim(c.ctx, name)
			return err
		})
		w := c.one(errs, projector.ErrHeld, "claims at once")
		if claims[w].Epoch <= epoch {
			c.failf("epoch %d after epoch %d", claims[w].Epoch, epoch)
		}
		epoch = claims[w].Epoch
		c.ok(targets[w%len(targets)].Release(c.ctx, claims[w]), "release")
	}
}

func raceApply[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	from := projector.Checkpoint{}
	for round := range uint64(10) {
		var inside atomic.Int32
		errs := c.together(4, func(i int) error {
			return t.Apply(c.ctx, claim, from, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
				defer inside.Add(-1)
				if inside.Add(1) > 1 {
					c.failf("two batches of one claim are inside their work at once")
				}
				<-time.After(time.Millisecond)
				return c.put("a", fmt.Sprint(round, i), at(round+1))(b)
			})
		})
		w := c.one(errs, projector.ErrTakenOver, "batches from one checkpoint at once")
		if c.exactly(t) {
			c.reads(t, "a", fmt.Sprint(round, w), "after batches at once")
		}
		from = at(round + 1)
	}
}

// raceNames has several names add to one number, which only transactions that
// run as if one after the other get right.
func raceNames[Tx any](c *env[Tx]) {
	t := c.open()
	c.needsExactly(t)
	const names, rounds = 4, 15
	errs := c.together(names, func(i int) error {
		n := projector.Name{Projector: fmt.Sprint("p", i), Boundary: "b"}
		claim, err := t.Claim(c.ctx, n)
		if err != nil {
			return err
		}
		var from projector.Checkpoint
		for r := range uint64(rounds) {
			if err := t.Apply(c.ctx, claim, from, c.add("sum", at(r+1))); err != nil {
				return err
			}
			from = at(r + 1)
		}
		return t.Release(c.ctx, claim)
	})
	c.ok(errors.Join(errs...), "batches of several names at once")
	c.reads(t, "sum", fmt.Sprint(names*rounds), "after batches of several names, each adding 1")
}

func (c *env[Tx]) add(key string, to projector.Checkpoint) func(projector.Batch[Tx]) (projector.Checkpoint, error) {
	return func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		text, found, err := c.Get(b.Tx(), key)
		if err != nil {
			return to, err
		}
		n := 0
		if found {
			if n, err = strconv.Atoi(text); err != nil {
				return to, err
			}
		}
		<-time.After(time.Millisecond) // others get in between here, if anything lets them
		return to, c.Put(b.Tx(), key, strconv.Itoa(n+1))
	}
}

func waitWakes[Tx any](c *env[Tx]) {
	t := c.open()
	waiter := t
	if c.f.Shared {
		waiter = c.open()
	}
	var claim projector.Claim
	for _, step := range []struct {
		what string
		do   func() error
		seen func(projector.State) bool
	}{
		{"claim", func() (err error) { claim, err = t.Claim(c.ctx, name); return err }, func(s projector.State) bool { return s.Held }},
		{"batch", func() error { return t.Apply(c.ctx, claim, projector.Checkpoint{}, c.put("a", "1", at(1))) }, func(s projector.State) bool { return s.Checkpoint == at(1) }},
		{"failure", func() error { return t.Fail(c.ctx, claim, aFailure(2)) }, func(s projector.State) bool { return s.Failure == aFailure(2) }},
		{"release", func() error { return t.Release(c.ctx, claim) }, func(s projector.State) bool { return !s.Held }},
	} {
		did := make(chan error, 1)
		go func() { did <- step.do() }()
		c.until(waiter, name, "the "+step.what, step.seen)
		c.ok(<-did, step.what)
	}
}

// waitLevel waits with states that are old already.
func waitLevel[Tx any](c *env[Tx]) {
	t := c.open()
	states := []projector.State{c.state(t, name)}
	remember := func() { states = append(states, c.state(t, name)) }
	claim := c.claim(t, name)
	remember()
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	remember()
	c.ok(t.Fail(c.ctx, claim, aFailure(2)), "fail")
	remember()
	c.ok(t.Release(c.ctx, claim), "release")
	for _, s := range states {
		began := time.Now()
		c.ok(t.Wait(c.ctx, name, s), "wait")
		if took := time.Since(began); took > 500*time.Millisecond {
			c.failf("wait took %s although the state was not %+v any more: it must return at once", took, s)
		}
	}
}

func waitReturns[Tx any](c *env[Tx]) {
	t := c.open()
	s := c.state(t, name)
	ctx, cancel := context.WithCancel(c.ctx)
	ended := make(chan error, 1)
	go func() {
		for {
			if err := t.Wait(ctx, name, s); err != nil {
				ended <- err
				return
			}
		}
	}()
	cancel()
	c.is(<-ended, context.Canceled, "wait whose context ends")
}
