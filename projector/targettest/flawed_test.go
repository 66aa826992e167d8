package targettest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

const lease = 10 * time.Second

// flawed is a plain target that breaks one promise.
type flawed struct {
	flaw    string
	writer  chan struct{}
	mu      sync.Mutex
	values  map[string]string
	names   map[projector.Name]*row
	changed chan struct{}
	closed  bool
}

type row struct {
	projector.State
	frozen time.Time
	done   map[uuid.UUID]bool
}

// flawedTx is its transaction, and its batch.
type flawedTx struct {
	target *flawed
	row    *row
	wrote  map[string]string
	done   map[uuid.UUID]bool
}

func newFlawed(flaw string) *flawed {
	return &flawed{
		flaw: flaw, writer: make(chan struct{}, 1), values: map[string]string{},
		names: map[projector.Name]*row{}, changed: make(chan struct{}),
	}
}

func (f *flawed) has(flaw string) bool { return f.flaw == flaw }

func (f *flawed) row(n projector.Name) *row {
	switch f.flaw {
	case "boundaries run together":
		n.Boundary = ""
	case "names run together":
		n = projector.Name{Projector: n.String()}
	}
	r := f.names[n]
	if r == nil {
		r = &row{done: map[uuid.UUID]bool{}}
		f.names[n] = r
	}
	return r
}

func (f *flawed) live(r *row) bool {
	if r.frozen.IsZero() || f.has("a lease never ends") {
		return r.Held
	}
	return r.Held && time.Since(r.frozen) < lease
}

func (f *flawed) wake() {
	if !f.has("deaf") {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

func (f *flawed) usable(ctx context.Context) error {
	switch {
	case f.closed && !f.has("works when closed"):
		return projector.ErrClosed
	case f.has("ignores contexts"):
		return nil
	}
	return ctx.Err()
}

func (f *flawed) Claim(ctx context.Context, n projector.Name) (projector.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.row(n)
	if err := f.usable(ctx); err != nil {
		return projector.Claim{}, err
	}
	if f.live(r) && !f.has("two owners") {
		if f.has("own error for a held name") {
			return projector.Claim{}, errors.New("busy")
		}
		return projector.Claim{}, projector.ErrHeld
	}
	if !f.has("epochs do not grow") || r.Epoch == 0 {
		r.Epoch++
	}
	if f.has("a claim begins anew") {
		r.Checkpoint = projector.Checkpoint{}
	}
	if f.has("a claim forgets the failure") {
		r.Failure = projector.Failure{}
	}
	r.Held, r.frozen = true, time.Time{}
	f.wake()
	return projector.Claim{Name: n, Epoch: r.Epoch}, nil
}

func (f *flawed) Release(_ context.Context, c projector.Claim) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.row(c.Name)
	switch {
	case f.closed && !f.has("works when closed"):
		return projector.ErrClosed
	case f.has("release does nothing"):
	case r.Epoch == c.Epoch || f.has("an old claim releases the new one"):
		r.Held = false
		f.wake()
	}
	return nil
}

func (f *flawed) State(ctx context.Context, n projector.Name) (projector.State, error) {
	if f.has("a writer blocks readers") {
		select {
		case f.writer <- struct{}{}:
			<-f.writer
		case <-ctx.Done():
			return projector.State{}, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return projector.State{}, err
	}
	r := f.row(n)
	s := r.State
	s.Held = f.live(r)
	if f.has("forgets the event_id") {
		s.Checkpoint.EventID = uuid.Nil
	}
	if f.has("forgets the log") {
		s.Checkpoint.Log = uuid.Nil
	}
	if f.has("cuts the reason") {
		s.Failure.Error = s.Failure.Error[:min(100, len(s.Failure.Error))]
	}
	if f.has("whole seconds") {
		s.Failure.First = s.Failure.First.Truncate(time.Second)
	}
	return s, nil
}

func (f *flawed) Fail(ctx context.Context, c projector.Claim, failure projector.Failure) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return err
	}
	r := f.row(c.Name)
	if !f.ours(r, c) && !f.has("anybody stores a failure") {
		return projector.ErrTakenOver
	}
	r.Failure = failure
	f.wake()
	return nil
}

func (f *flawed) ours(r *row, c projector.Claim) bool {
	return r.Epoch == c.Epoch && (r.Held || f.has("a released claim works"))
}

func (f *flawed) Wait(ctx context.Context, n projector.Name, seen projector.State) error {
	f.mu.Lock()
	r := f.row(n)
	now := r.State
	now.Held = f.live(r)
	changed, err := f.changed, f.usable(ctx)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if now != seen && !f.has("edge-triggered") && !f.has("deaf") {
		return nil
	}
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C:
	}
	return nil
}

func (f *flawed) Apply(ctx context.Context, c projector.Claim, from projector.Checkpoint, work func(projector.Batch[*flawedTx]) (projector.Checkpoint, error)) error {
	if err := f.usable(ctx); err != nil && !f.closed {
		return err
	}
	if !f.has("transactions run side by side") {
		select {
		case f.writer <- struct{}{}:
			defer func() { <-f.writer }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b := &flawedTx{target: f, wrote: map[string]string{}, done: map[uuid.UUID]bool{}}
	if err := f.check(ctx, b, c, from); err != nil {
		return err
	}
	if f.has("commits what panicked") {
		defer func() {
			if r := recover(); r != nil {
				_ = f.commit(b, c, from, from)
				panic(r)
			}
		}()
	}
	if f.has("checkpoint first") {
		f.mu.Lock()
		b.row.Checkpoint = projector.Checkpoint{Position: from.Position, EventID: uuid.New()}
		f.mu.Unlock()
	}
	to, err := work(b)
	switch {
	case err != nil && f.has("commits what failed"):
		_ = f.commit(b, c, from, from)
		return err
	case err != nil && f.has("hides the handler's error"):
		return errors.New("rolled back")
	case err != nil:
		return err
	case from.Position.After(to.Position) && !f.has("moves back"):
		return fmt.Errorf("back from %s to %s", from.Position, to.Position)
	}
	return f.commit(b, c, from, to)
}

func (f *flawed) check(ctx context.Context, b *flawedTx, c projector.Claim, from projector.Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return err
	}
	b.row = f.row(c.Name)
	if !f.ours(b.row, c) && !f.has("epoch is not checked") {
		return projector.ErrTakenOver
	}
	same := b.row.Checkpoint == from
	if f.has("only positions are compared") {
		same = b.row.Checkpoint.Position == from.Position
	}
	if !same && !f.has("checkpoint is not compared") {
		return projector.ErrTakenOver
	}
	return nil
}

func (f *flawed) commit(b *flawedTx, c projector.Claim, from, to projector.Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.has("transactions run side by side") && b.row.Checkpoint != from {
		return projector.ErrTakenOver
	}
	maps.Copy(f.values, b.wrote)
	if !f.has("forgets marks") {
		maps.Copy(b.row.done, b.done)
	}
	if !f.has("marks alone do not count") || to != from {
		b.row.Checkpoint = to
	} else {
		clear(b.row.done)
	}
	if !b.row.Failure.Position.After(to.Position) && !f.has("keeps the failure") || f.has("any checkpoint removes the failure") {
		b.row.Failure = projector.Failure{}
	}
	f.wake()
	return nil
}

func (x *flawedTx) Tx() *flawedTx { return x }

func (x *flawedTx) Seen(id uuid.UUID) (bool, error) {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	if x.target.has("one list of marks") {
		for _, r := range x.target.names {
			if r.done[id] {
				return true, nil
			}
		}
	}
	return x.row.done[id] || x.done[id] && !x.target.has("does not see its own marks"), nil
}

func (x *flawedTx) Done(id uuid.UUID) error {
	x.done[id] = true
	return nil
}

func (x *flawedTx) put(key, value string) error {
	if x.target.has("writes at once") {
		x.target.mu.Lock()
		defer x.target.mu.Unlock()
		x.target.values[key] = value
	}
	x.wrote[key] = value
	return nil
}

func (x *flawedTx) get(key string) (string, bool, error) {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	if v, ok := x.wrote[key]; ok && !x.target.has("does not see its own writes") {
		return v, true, nil
	}
	v, ok := x.target.values[key]
	return v, ok, nil
}
