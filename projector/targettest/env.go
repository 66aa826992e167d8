package targettest

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// name is the projector that most cases work as.
var name = projector.Name{Projector: "model", Boundary: "default"}

func (c *env[Tx]) failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func (c *env[Tx]) ok(err error, doing string) {
	if err != nil {
		c.failf("%s: %w", doing, err)
	}
}

func (c *env[Tx]) is(err, want error, doing string) {
	if !errors.Is(err, want) {
		c.failf("%s: the error is %v, it must wrap %q", doing, err, want)
	}
}

// open opens the case's target; called twice, the same one once more.
func (c *env[Tx]) open() projector.Target[Tx] {
	t, err := c.Open(c.name)
	c.ok(err, "open")
	c.opened = append(c.opened, t)
	return t
}

func (c *env[Tx]) close(t projector.Target[Tx]) {
	for i, o := range c.opened {
		if o == t {
			c.opened = append(c.opened[:i], c.opened[i+1:]...)
			break
		}
	}
	if c.Close != nil {
		c.ok(c.Close(t), "close")
	}
}

func (c *env[Tx]) closeAll() {
	for len(c.building) > 0 {
		c.closeNext(c.building[0])
	}
	for len(c.opened) > 0 {
		c.close(c.opened[0])
	}
}

func (c *env[Tx]) claim(t projector.Target[Tx], n projector.Name) projector.Claim {
	claim, err := t.Claim(c.ctx, n)
	c.ok(err, "claim")
	if claim.Name != n {
		c.failf("claim: the claim's name is %q, not %q", claim.Name, n)
	}
	return claim
}

func (c *env[Tx]) state(t projector.Target[Tx], n projector.Name) projector.State {
	s, err := t.State(c.ctx, n)
	c.ok(err, "state")
	return s
}

// unmoved is the state without the time that nobody can know.
func (c *env[Tx]) unmoved(t projector.Target[Tx], n projector.Name) projector.State {
	s := c.state(t, n)
	s.Moved = time.Time{}
	return s
}

// exactly says whether the target has transactions.
func (c *env[Tx]) exactly(t projector.Target[Tx]) bool { return t.Promise() == projector.ExactlyOnce }

func (c *env[Tx]) needsExactly(t projector.Target[Tx]) {
	if !c.exactly(t) {
		panic(skipped("the target has no transactions"))
	}
}

// put is a work that writes one text, marks ids, and moves the checkpoint.
func (c *env[Tx]) put(key, value string, to projector.Checkpoint, done ...uuid.UUID) func(projector.Batch[Tx]) (projector.Checkpoint, error) {
	return func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
		for _, id := range done {
			if err := b.Done(id, to.Position); err != nil {
				return projector.Checkpoint{}, err
			}
		}
		return to, c.Put(b.Tx(), key, value)
	}
}

// apply must succeed.
func (c *env[Tx]) apply(t projector.Target[Tx], claim projector.Claim, from projector.Checkpoint, work func(projector.Batch[Tx]) (projector.Checkpoint, error)) {
	c.ok(t.Apply(c.ctx, claim, from, work), "apply")
}

// reads checks what is committed under a key; "" for nothing.
func (c *env[Tx]) reads(t projector.Target[Tx], key, want, when string) {
	got, found, err := c.Read(t, key)
	c.ok(err, "read "+key)
	if got != want || found != (want != "") {
		c.failf("%s: the model holds %q (found: %v) under %q, want %q", when, got, found, key, want)
	}
}

func (c *env[Tx]) checkpointIs(t projector.Target[Tx], n projector.Name, want projector.Checkpoint, when string) {
	if got := c.state(t, n).Checkpoint; got != want {
		c.failf("%s: the checkpoint is %v, want %v", when, got, want)
	}
}

// seen asks for marked ids in a batch of its own that changes nothing.
func (c *env[Tx]) seen(t projector.Target[Tx], claim projector.Claim, id uuid.UUID) (seen bool) {
	at := c.state(t, claim.Name).Checkpoint
	c.apply(t, claim, at, func(b projector.Batch[Tx]) (_ projector.Checkpoint, err error) {
		seen, err = b.Seen(id)
		return at, err
	})
	return seen
}

// together runs n functions at once and returns their errors.
func (c *env[Tx]) together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			if err := protect(func() { errs[i] = f(i) }); err != nil {
				errs[i] = err
			}
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// until waits for a state of the name, woken by the target.
func (c *env[Tx]) until(t projector.Target[Tx], n projector.Name, what string, ok func(projector.State) bool) {
	for {
		s := c.state(t, n)
		if ok(s) {
			return
		}
		if err := c.wait(t, n, s); err != nil {
			c.failf("%s does not come: the state is %+v: %w", what, s, err)
		}
	}
}

// wait is Wait for loops. A target may come back early as often as it likes:
// the pause lets virtual time go on all the same.
func (c *env[Tx]) wait(t projector.Target[Tx], n projector.Name, seen projector.State) error {
	if err := t.Wait(c.ctx, n, seen); err != nil {
		return err
	}
	select {
	case <-time.After(time.Millisecond):
	case <-c.ctx.Done():
	}
	return c.ctx.Err()
}

func at(n uint64) projector.Checkpoint {
	return projector.Checkpoint{Position: consistency.NewPosition(0, n), EventID: id(fmt.Sprint(n)), Log: id("log")}
}

func id(text string) uuid.UUID { return uuid.NewHash(sha1.New(), uuid.NameSpaceOID, []byte(text), 5) }

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
