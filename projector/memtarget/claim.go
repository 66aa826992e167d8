package memtarget

import (
	"context"
	"fmt"
	"time"

	"github.com/cccgo/ccc/projector"
)

// usable returns why the handle can do nothing now. The family is locked.
func (h *handle[V]) usable(ctx context.Context, doing string, name projector.Name) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("memtarget: %s %s: %w", doing, name, context.Cause(ctx))
	case h.closed:
		return fmt.Errorf("memtarget: %s %s: this generation's %w: open it again with Next", doing, name, projector.ErrClosed)
	case h.model().dropped:
		return fmt.Errorf("memtarget: %s %s: %w: generation %q was dropped, because another one was begun", doing, name, projector.ErrClosed, h.model().tag)
	}
	return nil
}

// writable locks the family when nothing holds commits up, and returns the
// model; or returns an error, and nothing is locked.
func (h *handle[V]) writable(ctx context.Context, doing string, name projector.Name) (*model[V], error) {
	for {
		h.family.mu.Lock()
		if err := h.usable(ctx, doing, name); err != nil {
			h.family.mu.Unlock()
			return nil, err
		}
		m := h.model()
		if m.held == nil {
			return m, nil
		}
		held := m.held
		h.family.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
}

// Claim implements [projector.Target].
func (h *handle[V]) Claim(ctx context.Context, name projector.Name) (projector.Claim, error) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if err := h.usable(ctx, "claim", name); err != nil {
		return projector.Claim{}, err
	}
	m := h.model()
	o := m.of(name)
	if h.alive(o) {
		return projector.Claim{}, fmt.Errorf("memtarget: claim %s: %w (epoch %d)", name, projector.ErrHeld, o.epoch)
	}
	m.endAll(o) // of the frozen owner
	o.epoch++
	o.by, o.held, o.frozen = h, true, time.Time{}
	o.wake()
	return projector.Claim{Name: name, Epoch: o.epoch}, nil
}

// Release implements [projector.Target].
func (h *handle[V]) Release(ctx context.Context, claim projector.Claim) error {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if err := h.usable(ctx, "release", claim.Name); err != nil {
		return err
	}
	if o := h.model().of(claim.Name); o.ours(claim) == nil {
		o.held, o.frozen = false, time.Time{}
		o.wake()
	}
	return nil
}

// State implements [projector.Target].
func (h *handle[V]) State(ctx context.Context, name projector.Name) (projector.State, error) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if err := h.usable(ctx, "state of", name); err != nil {
		return projector.State{}, err
	}
	return h.state(h.model().of(name)), nil
}

func (h *handle[V]) state(o *owned[V]) projector.State {
	return projector.State{
		Checkpoint: o.checkpoint, Failure: o.failure, Epoch: o.epoch, Held: h.alive(o),
		Moved: o.moved, Applied: o.applied, Skipped: o.skipped, Marked: len(o.done) > 0,
		Parked: len(o.parked.waiting), Due: o.parked.due, Asked: o.asked,
	}
}

// Fail implements [projector.Target].
func (h *handle[V]) Fail(ctx context.Context, claim projector.Claim, failure projector.Failure) error {
	failure.First, failure.Last = micro(failure.First), micro(failure.Last)
	m, err := h.writable(ctx, "failure of", claim.Name)
	if err != nil {
		return err
	}
	defer h.family.mu.Unlock()
	o := m.of(claim.Name)
	if err := o.ours(claim); err != nil {
		return err
	}
	if failure.Position == o.failure.Position && failure.Discard == "" {
		failure.Discard = o.failure.Discard
	}
	o.failure = failure
	o.wake()
	return nil
}

// Wait implements [projector.Target].
func (h *handle[V]) Wait(ctx context.Context, name projector.Name, seen projector.State) error {
	h.family.mu.Lock()
	err := h.usable(ctx, "wait for", name)
	o := h.model().of(name)
	changed, same, limit := o.changed, h.state(o) == seen, waitAtMost
	if left := h.lease() - time.Since(o.frozen); o.held && !o.frozen.IsZero() && left > 0 {
		limit = min(limit, left) // nothing wakes us when a lease runs out
	}
	h.family.mu.Unlock()
	if err != nil || !same {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("memtarget: wait for %s: %w", name, context.Cause(ctx))
	case <-changed:
	case <-timer.C:
	}
	return nil
}

// Freeze plays a process that stands still while it holds a claim: the lease is
// not renewed any more and runs out after [Target.Lease]. The projector is not
// stopped by this; hold that up in its handler. A claim that is over is no
// matter.
func (h *handle[V]) Freeze(claim projector.Claim) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if o := h.model().of(claim.Name); o.ours(claim) == nil && o.frozen.IsZero() {
		o.frozen = time.Now()
		o.wake()
	}
}

// Thaw has the lease renewed again, if nobody took over.
func (h *handle[V]) Thaw(claim projector.Claim) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if o := h.model().of(claim.Name); o.ours(claim) == nil && !o.frozen.IsZero() {
		o.frozen = time.Time{}
		o.wake()
	}
}

func (h *handle[V]) lease() time.Duration {
	if t := h.family.target; t.Lease > 0 {
		return t.Lease
	}
	return defaultLease
}

func (h *handle[V]) alive(o *owned[V]) bool {
	return o.held && (o.frozen.IsZero() || time.Since(o.frozen) < h.lease())
}
