package targettest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

const lease = 10 * time.Second

// flawed is a plain target that breaks one promise.
type flawed struct {
	flaw string
	*book
	fixed  *space // of a generation; nil: the live one
	closed bool
}

// book is all generations.
type book struct {
	mu         sync.Mutex
	live, next *space
	first      *space
	tag        string
	old        int
	lanes      int // that run
	changed    chan struct{}
}

// space is one generation.
type space struct {
	writer chan struct{}
	values map[string]string
	names  map[projector.Name]*row
	held   chan struct{} // while a switch gets ready
}

type row struct {
	projector.State
	frozen  time.Time
	done    map[uuid.UUID]consistency.Position
	parked  []projector.Parked
	running *flawedTx // whose turn it is
}

func newFlawed(flaw string) *flawed {
	s := newSpace()
	return &flawed{flaw: flaw, book: &book{live: s, first: s, changed: make(chan struct{})}}
}

func newSpace() *space {
	return &space{writer: make(chan struct{}, 1), values: map[string]string{}, names: map[projector.Name]*row{}}
}

func (f *flawed) has(flaw string) bool { return f.flaw == flaw }

func (f *flawed) space() *space {
	if f.fixed != nil {
		return f.fixed
	}
	return f.live
}

func (f *flawed) row(n projector.Name) *row { return f.rowIn(f.space(), n) }

func (f *flawed) rowIn(s *space, n projector.Name) *row {
	switch f.flaw {
	case "boundaries run together":
		n.Boundary = ""
	case "names run together":
		n = projector.Name{Projector: n.String()}
	}
	r := s.names[n]
	if r == nil {
		r = &row{done: map[uuid.UUID]consistency.Position{}}
		s.names[n] = r
	}
	return r
}

func (r *row) copy() *row {
	c := *r
	c.done, c.parked = maps.Clone(r.done), slices.Clone(r.parked)
	return &c
}

func (f *flawed) alive(r *row) bool {
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
	case f.closed && !f.has("works when closed") && (f.fixed == nil || !f.has("a closed generation works")):
		return projector.ErrClosed
	case f.has("ignores contexts"):
		return nil
	}
	return ctx.Err()
}

func (f *flawed) Promise() projector.Promise {
	switch {
	case f.has("promises nothing"):
		return ""
	case f.has("a generation promises less") && f.fixed != nil, f.has("none, but the effect comes first"):
		return projector.AtLeastOnce
	}
	return projector.ExactlyOnce
}

func (f *flawed) Claim(ctx context.Context, n projector.Name) (projector.Claim, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return projector.Claim{}, err
	}
	r := f.row(n)
	if f.alive(r) && !f.has("two owners") {
		if f.has("own error for a held name") {
			return projector.Claim{}, errors.New("busy")
		}
		return projector.Claim{}, projector.ErrHeld
	}
	if !f.has("epochs do not grow") || r.Epoch == 0 {
		r.Epoch++
	}
	switch f.flaw {
	case "a claim begins anew":
		r.Checkpoint = projector.Checkpoint{}
	case "a claim forgets the failure":
		r.Failure = projector.Failure{}
	case "a claim forgets the parked":
		r.parked = nil
	}
	r.Held, r.frozen = true, time.Time{}
	if x := r.running; x != nil && !f.has("a frozen batch holds everybody up") {
		x.end()
	}
	f.wake()
	return projector.Claim{Name: n, Epoch: r.Epoch}, nil
}

func (f *flawed) Release(_ context.Context, c projector.Claim) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.row(c.Name)
	switch {
	case f.usable(context.Background()) != nil:
		return projector.ErrClosed
	case f.has("release does nothing"):
	case r.Epoch == c.Epoch || f.has("an old claim releases the new one"):
		r.Held = false
		f.wake()
	}
	return nil
}

func (f *flawed) State(ctx context.Context, n projector.Name) (projector.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := f.space().writer
	if f.has("a writer blocks readers") {
		f.mu.Unlock()
		select {
		case wait <- struct{}{}:
			<-wait
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
	if err := f.usable(ctx); err != nil {
		return projector.State{}, err
	}
	if f.has("a switch holds readers") && f.hold(ctx, f.space()) != nil {
		return projector.State{}, ctx.Err()
	}
	s := f.state(f.row(n))
	switch f.flaw {
	case "forgets the event_id":
		s.Checkpoint.EventID = uuid.Nil
	case "forgets the log":
		s.Checkpoint.Log = uuid.Nil
	case "cuts the reason":
		s.Failure.Error = s.Failure.Error[:min(100, len(s.Failure.Error))]
	case "whole seconds":
		s.Failure.First = s.Failure.First.Truncate(time.Second)
	case "local time":
		s.Moved = s.Moved.In(time.FixedZone("here", 3600))
	}
	return s, nil
}

func (f *flawed) state(r *row) projector.State {
	s := r.State
	s.Held, s.Marked = f.alive(r), len(r.done) > 0 || f.has("marked for ever") && r.Epoch > 0
	if f.has("never marked") {
		s.Marked = false
	}
	for _, p := range r.parked {
		if !p.Settled.IsZero() && !f.has("counts settled ones") {
			continue
		}
		s.Parked++
		later := p.Due.After(s.Due)
		if !p.Due.IsZero() && (s.Due.IsZero() || later == f.has("the last Due")) {
			s.Due = p.Due
		}
	}
	return s
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
	if was := r.Failure; !f.has("a try forgets the word") && (was.Position == failure.Position || f.has("a word sticks")) {
		failure.Discard = was.Discard
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
	if f.has("waits for the old generation") {
		r = f.rowIn(f.first, n)
	}
	now := f.state(r)
	if f.has("does not wait for words") {
		now.Asked = seen.Asked
	}
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
	f.mu.Lock()
	err, s := f.usable(ctx), f.space()
	for err == nil && f.has("apply waits for lanes") && f.lanes > 0 {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		f.mu.Lock()
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	turn := !f.has("transactions run side by side") && !f.has("batches of one claim run side by side")
	if turn {
		select {
		case s.writer <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b := f.begin(s, c.Name, turn)
	defer b.finish()
	if err := f.check(ctx, b.row, c, from); err != nil {
		return err
	}
	if f.has("commits what panicked") {
		defer func() {
			if r := recover(); r != nil {
				_ = b.commit(ctx, func(*row) error { return nil }, nil)
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
		_ = b.commit(ctx, func(*row) error { return nil }, nil)
		return err
	case err != nil && f.has("hides the handler's error"):
		return errors.New("rolled back")
	case err != nil:
		return err
	case from.Position.After(to.Position) && !f.has("moves back"):
		return fmt.Errorf("back from %s to %s", from.Position, to.Position)
	}
	return b.commit(ctx, func(r *row) error { return f.goodFor(r, c, from) }, func(r *row) { f.moveTo(r, from, to) })
}

func (f *flawed) check(ctx context.Context, r *row, c projector.Claim, from projector.Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return err
	}
	return f.goodFor(r, c, from)
}

func (f *flawed) goodFor(r *row, c projector.Claim, from projector.Checkpoint) error {
	if !f.ours(r, c) && !f.has("epoch is not checked") {
		return projector.ErrTakenOver
	}
	same := r.Checkpoint == from
	if f.has("only positions are compared") {
		same = r.Checkpoint.Position == from.Position
	}
	if !same && !f.has("checkpoint is not compared") && !f.has("checkpoint first") {
		return projector.ErrTakenOver
	}
	return nil
}

func (f *flawed) moveTo(r *row, from, to projector.Checkpoint) {
	if to != from && !f.has("moved is not kept") || f.has("each batch is a move") {
		r.Moved = time.Now().UTC().Truncate(time.Microsecond)
	}
	if !f.has("marks alone do not count") || to != from {
		r.Checkpoint = to
	} else {
		clear(r.done)
	}
	if !r.Failure.Position.After(to.Position) && !f.has("keeps the failure") || f.has("any checkpoint removes the failure") {
		r.Failure = projector.Failure{}
	}
}

// reopened is what happens to a target that was closed: it sees that the owners
// are gone.
func (f *flawed) reopened() {
	for _, r := range f.live.names {
		r.Held = false
		switch f.flaw {
		case "forgets what is parked when closed":
			r.parked = nil
		case "forgets the counts when closed":
			r.Applied, r.Skipped = 0, 0
		case "forgets the words when closed":
			r.Asked = 0
		case "forgets Moved when closed":
			r.Moved = time.Time{}
		case "forgets where marks stand":
			for id := range r.done {
				r.done[id] = consistency.NewPosition(1, 1)
			}
		}
	}
}
