package memtarget

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

const (
	defaultLease = 10 * time.Second
	// waitAtMost is how long Wait may stand without a change. Every change
	// wakes it, so this is only a net.
	waitAtMost = 5 * time.Second
)

// Target is a read model in memory. Make it with [New].
type Target[V any] struct {
	// Lease is how long the owner of a name may be frozen ([Target.Freeze])
	// before another one can claim it. Zero means 10 s. It must not be changed
	// once the target is in use.
	Lease time.Duration

	// writer holds a token while a transaction runs. It is a channel and no
	// mutex: handlers may take their time in it, and time that stands still
	// goes on only past goroutines that wait on channels.
	writer chan struct{}

	mu     sync.Mutex // held for moments only
	values map[string]V
	names  map[projector.Name]*owned[V]
}

// owned is what is kept for a name.
type owned[V any] struct {
	checkpoint projector.Checkpoint
	failure    projector.Failure
	epoch      int64
	held       bool
	frozen     time.Time // since when; zero: the owner is alive
	done       map[uuid.UUID]struct{}
	running    *Tx[V]        // the name's transaction, if one runs
	changed    chan struct{} // closed at the next change
}

// New makes an empty target.
func New[V any]() *Target[V] {
	return &Target[V]{
		writer: make(chan struct{}, 1),
		values: map[string]V{},
		names:  map[projector.Name]*owned[V]{},
	}
}

// Get reads a committed value.
func (t *Target[V]) Get(key string) (value V, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok = t.values[key]
	return value, ok
}

// Len is the number of committed values.
func (t *Target[V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.values)
}

// All walks over the values that are committed when the walk begins, by key.
func (t *Target[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		t.mu.Lock()
		values := maps.Clone(t.values)
		t.mu.Unlock()
		walk(values, yield)
	}
}

func walk[V any](values map[string]V, yield func(string, V) bool) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !yield(key, values[key]) {
			return
		}
	}
}

// Claim implements [projector.Target].
func (t *Target[V]) Claim(ctx context.Context, name projector.Name) (projector.Claim, error) {
	if ctx.Err() != nil {
		return projector.Claim{}, fmt.Errorf("memtarget: claim %s: %w", name, context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.of(name)
	if t.live(o) {
		return projector.Claim{}, fmt.Errorf("memtarget: claim %s: %w (epoch %d)", name, projector.ErrHeld, o.epoch)
	}
	o.epoch++
	o.held, o.frozen = true, time.Time{}
	if o.running != nil { // of the frozen owner: whatever it did is nothing now
		t.end(o.running)
		o.running = nil
	}
	o.wake()
	return projector.Claim{Name: name, Epoch: o.epoch}, nil
}

// Release implements [projector.Target].
func (t *Target[V]) Release(ctx context.Context, claim projector.Claim) error {
	if ctx.Err() != nil {
		return fmt.Errorf("memtarget: release %s: %w", claim.Name, context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.of(claim.Name); o.held && o.epoch == claim.Epoch {
		o.held, o.frozen = false, time.Time{}
		o.wake()
	}
	return nil
}

// State implements [projector.Target].
func (t *Target[V]) State(ctx context.Context, name projector.Name) (projector.State, error) {
	if ctx.Err() != nil {
		return projector.State{}, fmt.Errorf("memtarget: state of %s: %w", name, context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state(t.of(name)), nil
}

func (t *Target[V]) state(o *owned[V]) projector.State {
	return projector.State{Checkpoint: o.checkpoint, Failure: o.failure, Epoch: o.epoch, Held: t.live(o)}
}

// Fail implements [projector.Target].
func (t *Target[V]) Fail(ctx context.Context, claim projector.Claim, failure projector.Failure) error {
	if ctx.Err() != nil {
		return fmt.Errorf("memtarget: failure of %s: %w", claim.Name, context.Cause(ctx))
	}
	failure.First = failure.First.UTC().Truncate(time.Microsecond)
	failure.Last = failure.Last.UTC().Truncate(time.Microsecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.of(claim.Name)
	if err := o.ours(claim); err != nil {
		return err
	}
	o.failure = failure
	o.wake()
	return nil
}

// Wait implements [projector.Target].
func (t *Target[V]) Wait(ctx context.Context, name projector.Name, seen projector.State) error {
	t.mu.Lock()
	o := t.of(name)
	changed, same, limit := o.changed, t.state(o) == seen, waitAtMost
	if left := t.lease() - time.Since(o.frozen); o.held && !o.frozen.IsZero() && left > 0 {
		limit = min(limit, left) // nothing wakes us when a lease runs out
	}
	t.mu.Unlock()
	if ctx.Err() == nil && !same {
		return nil
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
func (t *Target[V]) Freeze(claim projector.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.of(claim.Name); o.ours(claim) == nil && o.frozen.IsZero() {
		o.frozen = time.Now()
		o.wake()
	}
}

// Thaw has the lease renewed again, if nobody took over.
func (t *Target[V]) Thaw(claim projector.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.of(claim.Name); o.ours(claim) == nil && !o.frozen.IsZero() {
		o.frozen = time.Time{}
		o.wake()
	}
}

func (t *Target[V]) lease() time.Duration {
	if t.Lease > 0 {
		return t.Lease
	}
	return defaultLease
}

func (t *Target[V]) live(o *owned[V]) bool {
	return o.held && (o.frozen.IsZero() || time.Since(o.frozen) < t.lease())
}

func (t *Target[V]) of(name projector.Name) *owned[V] {
	o := t.names[name]
	if o == nil {
		o = &owned[V]{done: map[uuid.UUID]struct{}{}, changed: make(chan struct{})}
		t.names[name] = o
	}
	return o
}

func (o *owned[V]) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// ours says whether the claim is the newest of its name and not released.
func (o *owned[V]) ours(claim projector.Claim) error {
	if o.held && o.epoch == claim.Epoch {
		return nil
	}
	return fmt.Errorf("memtarget: %s: %w: epoch %d is over, the latest is %d", claim.Name, projector.ErrTakenOver, claim.Epoch, o.epoch)
}
