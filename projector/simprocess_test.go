package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

// process is what one process has of the target.
type process struct {
	*history
	model
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
		if c, err = p.model.Claim(ctx, n); err == nil {
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
	err = p.call(func() (err error) { s, err = p.model.State(ctx, n); return err })
	return s, err
}

func (p *process) Release(ctx context.Context, c projector.Claim) error {
	err := p.call(func() error { return p.model.Release(ctx, c) })
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
	return p.call(func() error { return p.model.Fail(ctx, c, f) })
}

func (p *process) Parked(ctx context.Context, n projector.Name, q projector.ParkedQuery) (list []projector.Parked, err error) {
	err = p.call(func() (err error) { list, err = p.model.Parked(ctx, n, q); return err })
	return list, err
}

func (p *process) Ask(ctx context.Context, n projector.Name, at consistency.Position, discard string) error {
	return p.call(func() error { return p.model.Ask(ctx, n, at, discard) })
}

// commit is a transaction of the process. Sometimes its answer is an error, and
// it lands later.
func (p *process) commit(ctx context.Context, late func(), apply func(ctx context.Context, last func(error) error) error) error {
	if p.healed.Load() || !p.dice.permille(20) {
		return p.call(func() error {
			return apply(ctx, func(err error) error {
				if err == nil {
					err = p.step()
				}
				return err
			})
		})
	}
	worked := make(chan struct{})
	p.late.Go(func() {
		var once sync.Once
		done := func() { once.Do(func() { close(worked) }) }
		defer done()
		_ = apply(context.WithoutCancel(ctx), func(err error) error {
			if err == nil {
				err = p.step()
			}
			done()
			time.Sleep(p.dice.upTo(15 * time.Second))
			late()
			return err
		})
	})
	<-worked
	return errTest
}

func (p *process) Apply(ctx context.Context, c projector.Claim, from projector.Checkpoint, work func(projector.Batch[tx]) (projector.Checkpoint, error)) error {
	return p.commit(ctx, func() { p.faults.late.Add(1) }, func(ctx context.Context, last func(error) error) error {
		return p.model.Apply(ctx, c, from, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
			to, err := work(b)
			return to, last(err)
		})
	})
}

func (p *process) Lane(ctx context.Context, c projector.Claim, work func(projector.Batch[tx]) error) error {
	p.faults.lanes.Add(1)
	return p.commit(ctx, func() { p.faults.lateLanes.Add(1) }, func(ctx context.Context, last func(error) error) error {
		err := p.model.Lane(ctx, c, func(b projector.Batch[tx]) error { return last(work(b)) })
		if errors.Is(err, projector.ErrCollided) {
			p.faults.collided.Add(1)
		}
		return err
	})
}

// handle is the handler of a process that may fail with half of its work done.
func (p *process) handle(_ context.Context, x tx, d projector.Delivery) error {
	p.history.mu.Lock()
	f := p.byID[d.ID]
	p.history.mu.Unlock()
	err := p.diagnose(f)
	if err == nil && !errors.Is(f.sick, projector.ErrHold) && !p.healed.Load() && p.dice.permille(50) {
		err = errTest
	}
	if err != nil {
		p.faults.failures.Add(1)
		p.history.mu.Lock()
		p.failed[d.ID] = true
		p.history.mu.Unlock()
		x.Put("half", "written")
		if p.dice.permille(300) {
			panic(err)
		}
		return err
	}
	if !p.healed.Load() && p.dice.permille(100) {
		time.Sleep(p.dice.upTo(200 * time.Millisecond))
	}
	for _, key := range f.keys {
		was, _ := x.Get(key)
		x.Put(key, fmt.Sprint(was, ",", f.n))
	}
	return nil
}

// operate gives words about what is parked and what has halted, through a
// target that may fail.
func (h *history) operate(ctx context.Context, d *dice) {
	process := &process{history: h, model: h.m, dice: d}
	p := projector.New[tx](h.log, process, parks(), h.never)
	for ctx.Err() == nil && sleepFor(ctx, d.upTo(8*time.Second)) == nil {
		list := h.parked(projector.ParkedQuery{})
		for _, e := range list {
			if e.Failed {
				h.faults.parked.Add(1)
			} else {
				h.faults.behind.Add(1)
			}
		}
		switch {
		case d.permille(200):
			_ = p.Resume(ctx)
			h.faults.resumes.Add(1)
		case d.permille(200):
			if f := stateOf(h.t, h.m).Failure; f.Attempts > 0 {
				_ = p.Discard(ctx, f.Position, "in the way")
			}
		case len(list) == 0:
		case d.permille(300):
			h.discard(p, list[d.below(len(list))].Record.Position, fmt.Sprint("no. ", d.below(100)))
		case d.permille(500):
			_, _ = p.Retry(ctx)
			h.faults.retries.Add(1)
		default:
			_, _ = p.Retry(ctx, list[d.below(len(list))].Keys...)
		}
	}
}

// discard discards an event that was seen in the park: from then on it is never
// applied.
func (h *history) discard(p *projector.Projector[tx], at consistency.Position, reason string) {
	if err := p.Discard(context.Background(), at, reason); err == nil {
		h.faults.discarded.Add(1)
		h.mu.Lock()
		h.discarded[at] = reason
		h.mu.Unlock()
	}
}

func sleepFor(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}
