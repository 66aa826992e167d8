package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
)

// Claim implements [projector.Target].
func (t *Target) Claim(ctx context.Context, name projector.Name) (projector.Claim, error) {
	if err := t.begin(); err != nil {
		return projector.Claim{}, err
	}
	defer t.calls.Done()
	doing := "claim " + name.String()
	// A look first: most calls are a standby's, in vain, and must not wait for
	// the writer, nor have it wait.
	k, err := t.kept(ctx, name)
	if err == nil {
		err = t.free(k)
	}
	var o *owner
	if err == nil {
		o, err = t.enter()
	}
	if err != nil {
		return projector.Claim{}, t.file.failure(doing, err)
	}
	claim := projector.Claim{Name: name}
	var in *file
	err = t.write(ctx, doing, func(_ context.Context, g *file, s *session) error {
		in = g
		// Somebody else may have taken it since the look.
		if k, err = s.kept(name); err != nil {
			return err
		}
		if err := t.free(k); err != nil {
			return err
		}
		claim.Epoch = k.epoch + 1
		return s.claim(&k, claim, o.id, time.Now().Add(t.lease))
	}, func() {
		t.hold(o, name, lease{in.number, k.id, claim.Epoch})
		t.file.waiters.wake(name)
	})
	if errors.As(err, new(*goneError)) { // there is nothing to stand by for
		err = fmt.Errorf("%w: %w", projector.ErrClosed, err)
	}
	if err != nil {
		return projector.Claim{}, errors.Join(err, t.leave(o))
	}
	if k.held { // taken over
		t.file.base().sweep()
	}
	return claim, nil
}

// free is an error if a living owner holds the name.
func (t *Target) free(k kept) error {
	live, err := t.live(k, 0)
	if err == nil && live {
		err = fmt.Errorf("%w (epoch %d)", projector.ErrHeld, k.epoch)
	}
	return err
}

func (s *session) claim(k *kept, claim projector.Claim, owner string, until time.Time) error {
	if k.id == 0 {
		id, err := s.newName(claim.Name)
		if err != nil {
			return err
		}
		k.id = id
	}
	if err := s.do(sqlEpoch, k.id, claim.Epoch); err != nil {
		return err
	}
	return s.do(sqlLease, k.id, claim.Epoch, owner, until.UnixMilli())
}

// hold has the heartbeat renew a lease. An older claim of the name through this
// Target is over.
func (t *Target) hold(o *owner, name projector.Name, l lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := o.held[name]; ok {
		o.users--
	}
	o.held[name] = l
}

// Release implements [projector.Target].
func (t *Target) Release(ctx context.Context, claim projector.Claim) error {
	o := t.drop(claim)
	err := t.write(ctx, "release "+claim.Name.String(), func(_ context.Context, g *file, s *session) error {
		k, err := s.kept(claim.Name)
		if err != nil {
			return err
		}
		return s.release(lease{g.number, k.id, claim.Epoch})
	}, func() { t.file.waiters.wake(claim.Name) })
	if errors.As(err, new(*goneError)) {
		err = nil
	}
	// Only now: if this was the last claim, nobody sees that this process lives.
	if o != nil {
		err = errors.Join(err, t.leave(o))
	}
	return err
}

// drop has the heartbeat forget a claim, whether it can be released or not: a
// lease that nobody renews runs out. It returns the owner that is to be left.
func (t *Target) drop(claim projector.Claim) *owner {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owner
	if o == nil || o.held[claim.Name].epoch != claim.Epoch {
		return nil
	}
	delete(o.held, claim.Name)
	return o
}

// release gives back what is held under exactly this epoch.
func (s *session) release(l lease) error {
	if err := s.do(sqlUnhold, l.name, l.epoch); err != nil {
		return err
	}
	return s.do(sqlUnlease, l.name, l.epoch)
}

// abandon gives all claims back. It is called when no call is under way.
func (t *Target) abandon() error {
	t.mu.Lock()
	o := t.owner
	t.mu.Unlock()
	if o == nil {
		return nil
	}
	var names []projector.Name
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	err := t.onLive(ctx, func(g *file, s *session) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		for name, l := range o.held {
			if l.generation != g.number {
				continue // that claim is over
			}
			names = append(names, name)
			if err := s.release(l); err != nil {
				return err
			}
		}
		return nil
	}, func() {
		for _, name := range names {
			t.file.waiters.wake(name)
		}
	})
	if errors.As(err, new(*goneError)) {
		err = nil
	}
	err = sqlitedb.Classify(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner == o {
		err = errors.Join(err, t.endLocked(o))
	}
	return err
}
