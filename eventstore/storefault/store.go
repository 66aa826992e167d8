package storefault

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// Store is a wrapped store; use [New]. It is safe for concurrent use.
type Store struct {
	inner eventstore.Store
	cfg   Config

	mu            sync.Mutex
	counts        Counts
	scripts       map[Op][]Fault
	before, after func(Call)
	flights       []*flight
	closed        bool

	landing int           // flights that land at this moment
	landed  chan struct{} // closed when there are none; nil where nobody waits
	done    chan struct{} // closed by Close
}

var _ eventstore.Store = (*Store)(nil)

// New wraps a store.
func New(inner eventstore.Store, cfg Config) *Store {
	return &Store{inner: inner, cfg: cfg, scripts: map[Op][]Fault{}, counts: Counts{Faults: map[string]int{}}, done: make(chan struct{})}
}

// Op names an operation of a store.
type Op string

const (
	OpAppend   Op = "append"
	OpSnapshot Op = "snapshot"
	OpPage     Op = "page"
	OpWait     Op = "wait"
)

// Call is what hooks are told.
type Call struct {
	Op    Op
	N     int // its number among the calls of this operation, from 1
	Fault Fault

	Records []event.Record            // of an append
	Seen    []consistency.Observation // of an append
	Parts   []eventstore.Part         // of a snapshot; of a page its query and After
	Err     error                     // what the caller hears; for After
}

// Counts says how often the store was called, and what was done to the calls.
type Counts struct {
	Appends, Snapshots, Pages, Waits int
	// Landed counts late appends that were saved, Void those that were not:
	// their observations did not hold any more.
	Landed, Void int
	// Faults counts by the name that a Fault prints.
	Faults map[string]int
}

// Calls returns the round trips: all calls but waits.
func (c Counts) Calls() int { return c.Appends + c.Snapshots + c.Pages }

// Counts returns how often the store was called so far.
func (s *Store) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Faults = maps.Clone(c.Faults)
	return c
}

// Before has f called at the begin of each call, before anything reaches the
// wrapped store; nil: nothing is. f runs in the caller's goroutine and should
// call the wrapped store, not this one: such calls would reach f again.
func (s *Store) Before(f func(Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// After is Before for the end of each call.
func (s *Store) After(f func(Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = f
}

// run is one call under way.
type run struct {
	Call
	s     *Store
	rng   *rand.Rand
	delay delay
	after func(Call)
}

// begin counts the call, picks its fault and lands what is due before it.
func (s *Store) begin(c Call, pick func(*rand.Rand) Fault) (*run, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, eventstore.Closed()
	}
	n := s.count(c.Op)
	*n++
	r := &run{Call: c, s: s, rng: s.cfg.draw(c.Op, *n), after: s.after}
	r.N = *n
	if script := s.scripts[c.Op]; len(script) > 0 {
		r.Fault, s.scripts[c.Op] = script[0], script[1:]
	} else {
		r.delay = s.cfg.delay(r.rng)
		r.Fault = pick(r.rng)
	}
	if r.Fault.name != Pass.name {
		s.counts.Faults[r.Fault.name]++
	}
	before := s.before
	var due []*flight
	if c.Op != OpWait {
		due = s.due()
	}
	s.mu.Unlock()

	if r.Fault.name != Pass.name || r.delay != (delay{}) {
		s.logf("%s %d: %s", r.Op, r.N, r.what())
	}
	for _, f := range due {
		s.land(f)
	}
	if before != nil {
		before(r.Call)
	}
	return r, nil
}

func (s *Store) count(op Op) *int {
	switch op {
	case OpAppend:
		return &s.counts.Appends
	case OpSnapshot:
		return &s.counts.Snapshots
	case OpPage:
		return &s.counts.Pages
	}
	return &s.counts.Waits
}

func (r *run) end(err error) {
	if r.after != nil {
		r.Err = err
		r.after(r.Call)
	}
}

func (s *Store) logf(format string, args ...any) {
	if s.cfg.Logf != nil {
		s.cfg.Logf("storefault: "+format, args...)
	}
}

// pause waits, or returns the error of a context that ended, or of a store
// that was closed, meanwhile.
func (s *Store) pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.done:
		return eventstore.ErrClosed
	}
}

// Append implements [eventstore.Store].
func (s *Store) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	r, err := s.begin(Call{Op: OpAppend, Records: records, Seen: seen}, s.cfg.onAppend)
	if err != nil {
		return eventstore.Receipt{}, err
	}
	receipt, err := r.append(ctx)
	r.end(err)
	return receipt, err
}

func (r *run) append(ctx context.Context) (eventstore.Receipt, error) {
	_, invalid := eventstore.CheckAppend(r.Records, r.Seen)
	if invalid != nil || ctx.Err() != nil {
		return r.s.inner.Append(ctx, r.Records, r.Seen) // it is refused before anything is sent
	}
	if err := r.s.pause(ctx, r.delay.there); err != nil {
		if r.rng.IntN(2) == 0 {
			r.s.fly(r.Call, r.s.cfg.late(r.rng))
		}
		return eventstore.Receipt{}, cut(err)
	}
	receipt, err := r.send(ctx)
	if late := r.s.pause(ctx, r.delay.back); late != nil {
		return eventstore.Receipt{}, cut(late)
	}
	return receipt, err
}

// cut is what the caller of an append hears whose time was up while it was
// under way.
func cut(why error) error {
	return fmt.Errorf("storefault: %w: no answer yet: %w", eventstore.Ambiguous, why)
}

func (r *run) send(ctx context.Context) (receipt eventstore.Receipt, err error) {
	f := r.Fault
	for copies := range f.sends {
		again, againErr := r.s.inner.Append(ctx, r.Records, r.Seen)
		// Without an observation a second copy is no Conflict but a duplicate,
		// or saved: then the first one's answer is the true one.
		if copies == 0 || eventstore.KindOf(againErr) == eventstore.Conflict {
			receipt, err = again, againErr
		}
	}
	if f.late {
		r.s.fly(r.Call, f)
	}
	switch {
	case f.hang:
		select {
		case <-ctx.Done():
			return eventstore.Receipt{}, cut(context.Cause(ctx))
		case <-r.s.done:
			return eventstore.Receipt{}, cut(eventstore.ErrClosed)
		}
	case f.err != nil:
		return eventstore.Receipt{}, f.err
	}
	return receipt, err
}

// Features implements [eventstore.Store].
func (s *Store) Features() eventstore.Features { return s.inner.Features() }

// Close implements [eventstore.Store]. It drops what is in flight (see
// [Store.Settle]) and closes the wrapped store.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.Drop()
	return s.inner.Close()
}

// what tells the fault and the delay of a call.
func (r *run) what() string {
	if r.delay == (delay{}) {
		return r.Fault.name
	}
	return fmt.Sprintf("%s, %s there, %s back", r.Fault, r.delay.there, r.delay.back)
}
