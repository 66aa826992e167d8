package projector_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
)

// process is what one process has of the target.
type process struct {
	*history
	projector.Target[tx]
	dice  *dice
	mu    sync.Mutex
	claim projector.Claim // the latest of this process
	given int64           // up to this epoch the process renews nothing any more
	dead  bool
}

var errDead = errors.New("the process is dead")

// die ends the process: its lease is not renewed, and no call gets through.
func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.faults.deaths.Add(1)
	p.m.Freeze(p.claim)
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// step may fail, pause or freeze the process.
func (p *process) step() error {
	if p.isDead() {
		return errDead
	}
	switch {
	case p.healed.Load():
	case p.dice.permille(20):
		return errTest
	case p.dice.permille(30):
		time.Sleep(p.dice.upTo(3 * time.Second))
	case p.dice.permille(8):
		p.mu.Lock()
		claim := p.claim
		p.mu.Unlock()
		p.faults.freezes.Add(1)
		p.m.Freeze(claim)
		time.Sleep(p.dice.upTo(30 * time.Second))
		p.mu.Lock()
		if !p.dead && claim.Epoch > p.given {
			p.m.Thaw(claim)
		}
		p.mu.Unlock()
	}
	if p.isDead() {
		return errDead
	}
	return nil
}

// call is one call to the target: it may fail before, and its answer get lost.
func (p *process) call(f func() error) error {
	if err := p.step(); err != nil {
		p.faults.before.Add(1)
		return err
	}
	err := f()
	if lost := p.step(); lost != nil && err == nil {
		p.faults.lost.Add(1)
		return lost
	}
	return err
}

func (p *process) Claim(ctx context.Context, n projector.Name) (c projector.Claim, err error) {
	err = p.call(func() (err error) {
		if c, err = p.Target.Claim(ctx, n); err == nil {
			p.faults.claims.Add(1)
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.claim = c; p.dead {
				p.m.Freeze(c)
			}
		}
		return err
	})
	if err != nil && c.Epoch != 0 { // nobody knows of this claim
		p.give(c)
	}
	return c, err
}

func (p *process) State(ctx context.Context, n projector.Name) (s projector.State, err error) {
	err = p.call(func() (err error) { s, err = p.Target.State(ctx, n); return err })
	return s, err
}

func (p *process) Release(ctx context.Context, c projector.Claim) error {
	err := p.call(func() error { return p.Target.Release(ctx, c) })
	if err != nil {
		p.give(c)
	}
	return err
}

// give lets a claim go that could not be given back: nothing renews it.
func (p *process) give(c projector.Claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = max(p.given, c.Epoch)
	p.m.Freeze(c)
}

func (p *process) Fail(ctx context.Context, c projector.Claim, f projector.Failure) error {
	return p.call(func() error { return p.Target.Fail(ctx, c, f) })
}

func (p *process) Apply(ctx context.Context, c projector.Claim, from projector.Checkpoint, work func(projector.Batch[tx]) (projector.Checkpoint, error)) error {
	inside := func(b projector.Batch[tx]) (projector.Checkpoint, error) {
		to, err := work(b)
		if err == nil {
			err = p.step()
		}
		return to, err
	}
	if p.healed.Load() || !p.dice.permille(20) {
		return p.call(func() error { return p.Target.Apply(ctx, c, from, inside) })
	}
	// The answer is an error, and the commit lands later.
	worked := make(chan struct{})
	p.late.Go(func() {
		var once sync.Once
		defer once.Do(func() { close(worked) })
		_ = p.Target.Apply(context.WithoutCancel(ctx), c, from, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
			to, err := inside(b)
			once.Do(func() { close(worked) })
			time.Sleep(p.dice.upTo(15 * time.Second))
			p.faults.late.Add(1)
			return to, err
		})
	})
	<-worked
	return errTest
}

// handle is the handler of a process that may fail with half of its work done.
func (p *process) handle(ctx context.Context, x tx, d projector.Delivery) error {
	_, poison := p.poison.Load(d.ID)
	if !p.healed.Load() && (poison || p.dice.permille(60)) {
		p.faults.failures.Add(1)
		x.Put("half", "written")
		if p.dice.permille(300) {
			panic(errTest)
		}
		return errTest
	}
	if p.dice.permille(100) {
		time.Sleep(p.dice.upTo(200 * time.Millisecond))
	}
	return add(ctx, x, d)
}
