package targettest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

func cases[Tx any]() []testCase[Tx] {
	all := []testCase[Tx]{
		{"claim-of-a-new-name", 0, claimNew[Tx]},
		{"claim-of-a-held-name", 0, claimHeld[Tx]},
		{"claim-after-release", 0, claimAfterRelease[Tx]},
		{"release-of-an-old-claim", 0, releaseOld[Tx]},
		{"claim-through-another-target", shared, claimShared[Tx]},
		{"lease-runs-out", lease, leaseRunsOut[Tx]},
		{"lease-runs-out-inside-a-batch", lease | freeWriter, leaseInBatch[Tx]},
		{"lease-ran-out-and-nobody-came", lease, leaseNobody[Tx]},
		{"failure-is-kept", 0, failureKept[Tx]},
		{"failure-keeps-its-discard", 0, failureDiscard[Tx]},
		{"failure-goes-with-the-checkpoint", 0, failureGoes[Tx]},
		{"ended-context", 0, endedContext[Tx]},
		{"closed", closes, closed[Tx]},
		{"reopened", durable, reopened[Tx]},
	}
	return slices.Concat(all, applyCases[Tx](), raceCases[Tx](), stateCases[Tx](), parkCases[Tx](), askCases[Tx](),
		laneCases[Tx](), generationCases[Tx]())
}

func claimNew[Tx any](c *env[Tx]) {
	t := c.open()
	if s := c.state(t, name); s != (projector.State{}) {
		c.failf("the state of a name that was never used is %+v, want the zero State", s)
	}
	claim := c.claim(t, name)
	if claim.Epoch < 1 {
		c.failf("the first epoch is %d, want 1 or more", claim.Epoch)
	}
	if s := c.state(t, name); s != (projector.State{Epoch: claim.Epoch, Held: true}) {
		c.failf("the state after the claim of epoch %d is %+v", claim.Epoch, s)
	}
}

func claimHeld[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	for range 3 {
		_, err := t.Claim(c.ctx, name)
		c.is(err, projector.ErrHeld, "claim of a held name")
	}
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1))) // the refused claims took nothing away
	if s := c.state(t, name); s.Epoch != claim.Epoch || !s.Held {
		c.failf("after refused claims the state is %+v, the claim %+v", s, claim)
	}
}

func claimAfterRelease[Tx any](c *env[Tx]) {
	t := c.open()
	epoch := int64(0)
	for i := range uint64(3) {
		claim := c.claim(t, name)
		if claim.Epoch <= epoch {
			c.failf("epoch %d after epoch %d: it must grow with each claim", claim.Epoch, epoch)
		}
		epoch = claim.Epoch
		var from projector.Checkpoint
		if i > 0 {
			from = at(i)
		}
		c.apply(t, claim, from, c.put("a", "1", at(i+1)))
		c.ok(t.Release(c.ctx, claim), "release")
		if s := c.unmoved(t, name); s != (projector.State{Checkpoint: at(i + 1), Epoch: epoch}) {
			c.failf("the state after a release is %+v", s)
		}
	}
}

func releaseOld[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.ok(t.Release(c.ctx, old), "release")
	c.ok(t.Release(c.ctx, old), "a second release")
	claim := c.claim(t, name)
	c.ok(t.Release(c.ctx, old), "release of a claim that was taken over")
	_, err := t.Claim(c.ctx, name)
	c.is(err, projector.ErrHeld, "claim after the release of an old claim")
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
}

func claimShared[Tx any](c *env[Tx]) {
	a, b := c.open(), c.open()
	claim := c.claim(a, name)
	_, err := b.Claim(c.ctx, name)
	c.is(err, projector.ErrHeld, "claim through another target of a held name")
	c.apply(a, claim, projector.Checkpoint{}, c.put("a", "1", at(1), id("x")))
	c.ok(a.Fail(c.ctx, claim, aFailure(2)), "fail")
	c.reads(b, "a", "1", "through another target")
	if s := c.unmoved(b, name); s != (projector.State{Checkpoint: at(1), Failure: aFailure(2), Epoch: claim.Epoch, Held: true, Marked: true}) {
		c.failf("another target sees the state %+v", s)
	}
	go func() { _ = a.Release(c.ctx, claim) }()
	c.until(b, name, "the release, seen by another target,", func(s projector.State) bool { return !s.Held })
	next := c.claim(b, name)
	if next.Epoch <= claim.Epoch {
		c.failf("epoch %d through another target, after epoch %d", next.Epoch, claim.Epoch)
	}
	c.is(a.Apply(c.ctx, claim, at(1), c.put("a", "2", at(2))), projector.ErrTakenOver, "apply after another target took over")
	if !c.seen(b, next, id("x")) {
		c.failf("another target does not see the mark")
	}
}

func leaseRunsOut[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1)))
	frozen := time.Now()
	c.Freeze(t, name)
	_, err := t.Claim(c.ctx, name)
	c.is(err, projector.ErrHeld, "claim right after the owner froze")
	claim := c.takeOver(t, frozen)
	if claim.Epoch <= old.Epoch {
		c.failf("epoch %d after a lease ran out, the frozen one is %d", claim.Epoch, old.Epoch)
	}
	c.is(t.Apply(c.ctx, old, at(1), c.put("a", "2", at(2), id("x"))), projector.ErrTakenOver, "apply of the owner that woke up")
	c.ok(t.Release(c.ctx, old), "release by the owner that woke up")
	_, err = t.Claim(c.ctx, name)
	c.is(err, projector.ErrHeld, "claim after a release by the owner that woke up")
	c.unchanged(t, claim, "after the frozen owner woke up")
}

// takeOver claims a frozen owner's name, as a standby does.
func (c *env[Tx]) takeOver(t projector.Target[Tx], frozen time.Time) projector.Claim {
	for {
		s := c.state(t, name)
		claim, err := t.Claim(c.ctx, name)
		if err == nil {
			return claim
		}
		c.is(err, projector.ErrHeld, "claim while the lease runs")
		if over := time.Since(frozen); over > 2*c.f.Lease+5*time.Second {
			c.failf("the name is held %s after its owner froze, the lease is %s", over, c.f.Lease)
		}
		c.ok(c.wait(t, name, s), "wait while the lease runs")
	}
}

func leaseInBatch[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1)))
	in, wake, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- t.Apply(c.ctx, old, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			_, err := c.put("a", "2", at(2), id("x"))(b)
			close(in)
			<-wake
			return at(2), err
		})
	}()
	<-in
	frozen := time.Now()
	c.Freeze(t, name)
	var claim projector.Claim
	err := protect(func() {
		claim = c.takeOver(t, frozen)
		c.apply(t, claim, at(1), c.put("c", "3", at(1))) // the frozen writer holds nobody up
	})
	close(wake)
	c.is(<-ended, projector.ErrTakenOver, "apply that was frozen and taken over")
	c.ok(err, "take over from a batch that stands still")
	c.rolledBack(t, claim, "after a batch that was taken over")
}

func leaseNobody[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.Freeze(t, name)
	c.until(t, name, "the end of the lease", func(s projector.State) bool { return !s.Held })
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	c.reads(t, "a", "1", "after a lease that nobody took over")
}

func aFailure(n uint64) projector.Failure {
	first := time.Date(2026, 3, 29, 1, 59, 59, 999_999_000, time.UTC)
	return projector.Failure{
		Position: at(n).Position, EventID: at(n).EventID, Type: "Type'\"%", Attempts: int(n),
		First: first, Last: first.Add(time.Hour), Error: "line\n'\"% ä", Halted: n%2 == 0, Hold: n%3 == 0,
	}
}

func failureKept[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	long := aFailure(5)
	long.Error = strings.Repeat("why ", 2000)
	for _, f := range []projector.Failure{aFailure(3), aFailure(4), long, {Position: at(2).Position}} {
		c.ok(t.Fail(c.ctx, claim, f), "fail")
		if s := c.state(t, name); s.Failure != f || s.Checkpoint != at(1) {
			c.failf("the failure comes back as %+v, stored was %+v; checkpoint %v", s.Failure, f, s.Checkpoint)
		}
	}
	c.ok(t.Fail(c.ctx, claim, aFailure(4)), "fail")
	_ = t.Apply(c.ctx, claim, at(1), func(projector.Batch[Tx]) (projector.Checkpoint, error) { return at(9), errWork })
	c.ok(t.Release(c.ctx, claim), "release")
	claim = c.claim(t, name)
	if s := c.state(t, name); s.Failure != aFailure(4) {
		c.failf("after a failed batch, a release and a claim the failure is %+v", s.Failure)
	}
	c.ok(t.Fail(c.ctx, claim, projector.Failure{}), "fail")
	if s := c.state(t, name); s.Failure != (projector.Failure{}) {
		c.failf("the zero Failure does not remove: %+v", s.Failure)
	}
}

// failureDiscard has somebody ask that the event in the way is discarded.
func failureDiscard[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.ok(t.Fail(c.ctx, claim, aFailure(9)), "fail")
	c.is(t.Ask(c.ctx, name, pos(10), "why"), projector.ErrNotParked, "ask for what comes after the failure")
	want := c.state(t, name)
	want.Failure.Discard = "why\n'\"% ä"
	want.Asked++
	c.ok(t.Ask(c.ctx, name, pos(9), want.Failure.Discard), "ask that the failure is discarded")
	is := func(when string) {
		if s := c.state(t, name); s != want {
			c.failf("%s the state is %+v, want %+v", when, s, want)
		}
	}
	is("after somebody asked that the failure is discarded")
	tried := aFailure(9)
	tried.Attempts, tried.Error = 99, "another one"
	c.ok(t.Fail(c.ctx, claim, tried), "fail")
	tried.Discard, want.Failure = want.Failure.Discard, tried
	want.Failure = tried
	is("after another try of the failure that is to be discarded")
	for _, f := range []projector.Failure{aFailure(10), {}} { // the word is about none of these
		c.ok(t.Fail(c.ctx, claim, f), "fail")
		want.Failure = f
		is("after a failure of another event")
	}
}

func failureGoes[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.ok(t.Fail(c.ctx, claim, aFailure(10)), "fail")
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(9)))
	if s := c.state(t, name); s.Failure != aFailure(10) {
		c.failf("a checkpoint before the failure changed it to %+v", s.Failure)
	}
	c.apply(t, claim, at(9), c.put("a", "2", at(10)))
	if s := c.state(t, name); s.Failure != (projector.Failure{}) {
		c.failf("the checkpoint has reached the failure, which is still there: %+v", s.Failure)
	}
}

func endedContext[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.apply(t, claim, projector.Checkpoint{}, c.put("a", "1", at(1)))
	s := c.state(t, name)
	_, err := t.Claim(ended(), projector.Name{Projector: "free", Boundary: "b"})
	c.is(err, context.Canceled, "claim")
	_, err = t.State(ended(), name)
	c.is(err, context.Canceled, "state")
	c.is(t.Apply(ended(), claim, at(1), c.put("a", "2", at(2), id("x"))), context.Canceled, "apply")
	c.is(t.Fail(ended(), claim, aFailure(2)), context.Canceled, "fail")
	c.is(t.Wait(ended(), name, s), context.Canceled, "wait")
	c.is(t.Ask(ended(), name, consistency.Position{}, ""), context.Canceled, "ask")
	_, err = t.Parked(ended(), name, projector.ParkedQuery{})
	c.is(err, context.Canceled, "list what is parked")
	if now := c.state(t, name); now != s {
		c.failf("calls with an ended context changed the state to %+v", now)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	err = t.Apply(ctx, claim, at(1), func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		_, err := c.put("a", "2", at(2), id("x"))(b)
		cancel()
		return at(2), errors.Join(err, errWork)
	})
	c.is(err, errWork, "apply whose context ends in work, which fails")
	c.rolledBack(t, claim, "after ended contexts")
}

func closed[Tx any](c *env[Tx]) {
	t := c.open()
	claim := c.claim(t, name)
	c.close(t)
	_, err := t.Claim(c.ctx, name)
	c.is(err, projector.ErrClosed, "claim")
	_, err = t.State(c.ctx, name)
	c.is(err, projector.ErrClosed, "state")
	c.is(t.Apply(c.ctx, claim, projector.Checkpoint{}, c.put("a", "1", at(1))), projector.ErrClosed, "apply")
	c.is(t.Fail(c.ctx, claim, aFailure(1)), projector.ErrClosed, "fail")
	c.is(t.Wait(c.ctx, name, projector.State{}), projector.ErrClosed, "wait")
	c.is(t.Release(c.ctx, claim), projector.ErrClosed, "release")
	c.is(t.Ask(c.ctx, name, consistency.Position{}, ""), projector.ErrClosed, "ask")
	_, err = t.Parked(c.ctx, name, projector.ParkedQuery{})
	c.is(err, projector.ErrClosed, "list what is parked")
}

func reopened[Tx any](c *env[Tx]) {
	t := c.open()
	old := c.claim(t, name)
	c.apply(t, old, projector.Checkpoint{}, c.put("a", "1", at(1), id("x")))
	c.ok(t.Fail(c.ctx, old, aFailure(2)), "fail")
	c.close(t) // not released: the target sees it, or the lease runs out
	closed := time.Now()
	t = c.open()
	c.reads(t, "a", "1", "after the target was opened again")
	claim := c.takeOver(t, closed)
	if claim.Epoch <= old.Epoch {
		c.failf("after the target was opened again the epoch is %d, before it was %d", claim.Epoch, old.Epoch)
	}
	if s := c.unmoved(t, name); s != (projector.State{Checkpoint: at(1), Failure: aFailure(2), Epoch: claim.Epoch, Held: true, Marked: true}) {
		c.failf("after the target was opened again the state is %+v", s)
	}
	if !c.seen(t, claim, id("x")) {
		c.failf("after the target was opened again the mark is gone")
	}
}
