package effecttarget

import (
	"context"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

// Config has defaults for every field.
type Config struct {
	// Lease is how long a name is held by a process that stands still or died,
	// by the keeper's clock. It is renewed at a third of it. Zero means 10 s. All
	// processes should have the same.
	Lease time.Duration
	// LookEvery is how often a wait asks the keeper what other processes did.
	// What this Target did wakes at once. Zero means 50 ms.
	LookEvery time.Duration
}

// waitLimit is how long a wait may stand without a change.
const waitLimit = 5 * time.Second

// core is what the kinds of targets have in common: all but the effect.
type core[Tx any] struct {
	keeper  Keeper
	config  Config
	durable bool                                      // each Done
	begin   func(context.Context, projector.Claim) Tx // of a batch
	finish  func(context.Context, Tx) error           // of its work; nil: nothing to do

	mu      sync.Mutex
	cells   map[projector.Name]*cell
	held    map[projector.Name]*heldClaim
	beating bool
	closed  bool

	fewer chan struct{} // held became smaller
	calls sync.WaitGroup
	beats sync.WaitGroup
	saves sync.WaitGroup

	ctx, work       context.Context // of waits and the heartbeat; of loads and saves
	cancel, endWork context.CancelFunc
}

func newCore[Tx any](k Keeper, c Config) *core[Tx] {
	if c.Lease <= 0 {
		c.Lease = 10 * time.Second
	}
	if c.LookEvery <= 0 {
		c.LookEvery = 50 * time.Millisecond
	}
	t := &core[Tx]{keeper: k, config: c, cells: map[projector.Name]*cell{}, held: map[projector.Name]*heldClaim{}, fewer: make(chan struct{}, 1)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.work, t.endWork = context.WithCancel(context.Background())
	return t
}

// enter begins a call; leave ends it.
func (t *core[Tx]) enter(ctx context.Context, name projector.Name) (c *cell, leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, nil, projector.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	}
	t.calls.Add(1)
	return t.cell(name), t.calls.Done, nil
}

func (t *core[Tx]) cell(name projector.Name) *cell {
	c := t.cells[name]
	if c == nil {
		c = newCell(t.work, &t.saves, t.keeper, name)
		t.cells[name] = c
	}
	return c
}

// Claim implements [projector.Target].
func (t *core[Tx]) Claim(ctx context.Context, name projector.Name) (claim projector.Claim, err error) {
	defer func() { err = failure("claim", name, err) }()
	c, leave, err := t.enter(ctx, name)
	if err != nil {
		return claim, err
	}
	defer leave()
	var got projector.Claim
	ch := &change{fresh: true, do: func(d *document, now time.Time) (_ bool, err error) {
		got, err = d.claim(now, t.config.Lease)
		return true, err
	}}
	if err := c.submit(ctx, ch); err != nil {
		if ctx.Err() != nil {
			t.calls.Go(func() { c.undo(t.work, ch, &got) })
		}
		return claim, err
	}
	t.hold(got)
	return got, nil
}

// undo gives back a claim that was saved after its caller had left. Nobody would
// renew it, and others would have to wait for its lease.
func (c *cell) undo(ctx context.Context, ch *change, got *projector.Claim) {
	c.mu.Lock()
	taken := ch.taken
	c.mu.Unlock()
	if !taken || <-ch.done != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
	defer cancel()
	_ = c.release(ctx, *got) // else its lease runs out
}

// Release implements [projector.Target].
func (t *core[Tx]) Release(ctx context.Context, claim projector.Claim) (err error) {
	defer func() { err = failure("release", claim.Name, err) }()
	t.drop(claim) // whether it can be released or not: a lease that nobody renews runs out
	c, leave, err := t.enter(ctx, claim.Name)
	if err != nil {
		return err
	}
	defer leave()
	return c.release(ctx, claim)
}

func (c *cell) release(ctx context.Context, claim projector.Claim) error {
	return c.submit(ctx, &change{fresh: true, do: func(d *document, _ time.Time) (bool, error) { return d.release(claim), nil }})
}

// State implements [projector.Target].
func (t *core[Tx]) State(ctx context.Context, name projector.Name) (s projector.State, err error) {
	defer func() { err = failure("state of", name, err) }()
	c, leave, err := t.enter(ctx, name)
	if err != nil {
		return s, err
	}
	defer leave()
	return c.look(ctx)
}

// Fail implements [projector.Target].
func (t *core[Tx]) Fail(ctx context.Context, claim projector.Claim, f projector.Failure) (err error) {
	defer func() { err = failure("failure of", claim.Name, err) }()
	c, leave, err := t.enter(ctx, claim.Name)
	if err != nil {
		return err
	}
	defer leave()
	return c.submit(ctx, &change{do: func(d *document, _ time.Time) (bool, error) { return true, d.fail(claim, f) }})
}

// Ask implements [projector.Target].
func (t *core[Tx]) Ask(ctx context.Context, name projector.Name, at consistency.Position, discard string) (err error) {
	defer func() { err = failure("ask", name, err) }()
	c, leave, err := t.enter(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	return c.submit(ctx, &change{do: func(d *document, _ time.Time) (bool, error) { return true, d.ask(at, discard) }})
}

// Parked implements [projector.Target].
func (t *core[Tx]) Parked(ctx context.Context, name projector.Name, q projector.ParkedQuery) (list []projector.Parked, err error) {
	defer func() { err = failure("parked events of", name, err) }()
	c, leave, err := t.enter(ctx, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	text, version, _, err := t.keeper.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	d, err := decode(name, text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met(version)
	return d.park.list(q), nil
}

// Wait implements [projector.Target].
func (t *core[Tx]) Wait(ctx context.Context, name projector.Name, seen projector.State) (err error) {
	defer func() { err = failure("wait for", name, err) }()
	c, leave, err := t.enter(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	end := time.NewTimer(waitLimit)
	defer end.Stop()
	look := time.NewTimer(t.config.LookEvery)
	defer look.Stop()
	for age := time.Duration(0); ; age = t.config.LookEvery {
		changed := c.next() // before the look: nothing is missed between
		is, err := c.glance(ctx, age)
		if err != nil || is != seen {
			return err
		}
		look.Reset(t.config.LookEvery)
		select {
		case <-changed:
		case <-look.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.ctx.Done():
			return projector.ErrClosed
		}
	}
}

// Close gives all claims back, once the calls under way have ended, and ends the
// heartbeat. It leaves the [Keeper] alone. A second Close does nothing.
func (t *core[Tx]) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.calls.Wait()
	t.beats.Wait()
	err := t.giveBack()
	t.endWork()
	t.saves.Wait()
	return err
}
