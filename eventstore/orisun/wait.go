package orisun

import (
	"context"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
)

const (
	// The watcher stays this long after the last waiter, who mostly comes back:
	// a server frees a subscriber's name half a second after its end.
	linger = 30 * time.Second
	// After a hint that an ascending read does not confirm yet it looks again
	// soon, and then ever later, up to Config.Poll.
	lookSoon = 10 * time.Millisecond
)

// waiters are who waits for events. One watcher looks for all of them.
type waiters struct {
	mu       sync.Mutex
	waiting  map[*waiter]struct{}
	watching bool
	kick     chan struct{} // look at once; one kick is kept
}

type waiter struct {
	after consistency.Position
	woken chan struct{} // closed, under the lock, by who takes it off the list
}

func (w *waiters) init() {
	w.waiting = map[*waiter]struct{}{}
	w.kick = make(chan struct{}, 1)
}

func (w *waiters) kickOff() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// Wait implements [eventstore.Store]. What wakes it is an ascending read; the
// subscription, own appends and a poll only say when to try one. So a stream
// that is silent, late or held by a dead process costs at most Config.Poll.
func (s *Store) Wait(ctx context.Context, after consistency.Position) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w := &waiter{after: after, woken: make(chan struct{})}
	s.waiters.mu.Lock()
	s.waiters.waiting[w] = struct{}{}
	if !s.waiters.watching {
		s.waiters.watching = true
		s.calls.Go(s.watch)
	}
	s.waiters.mu.Unlock()
	s.waiters.kickOff()
	defer func() {
		s.waiters.mu.Lock()
		defer s.waiters.mu.Unlock()
		delete(s.waiters.waiting, w)
	}()
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return eventstore.Closed()
	}
}

// watch looks at every kick and every poll, until nobody has waited for long.
func (s *Store) watch() {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	var stream sync.WaitGroup
	defer stream.Wait()
	defer stop()
	stream.Go(func() { s.listen(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	soon, idle := lookSoon, time.Now()
	for {
		kicked := false
		select {
		case <-s.closing:
			return
		case <-s.waiters.kick:
			kicked = true
		case <-timer.C:
		}
		found, any := s.look(ctx)
		switch {
		case any || found:
			idle = time.Now()
		case s.waiters.leave(idle):
			return
		}
		if kicked || found {
			soon = lookSoon
		}
		timer.Reset(min(soon, s.cfg.Poll))
		soon = min(soon*2, s.cfg.Poll)
	}
}

// leave ends the watcher if nobody waits since long.
func (w *waiters) leave(idle time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 || time.Since(idle) < linger {
		return false
	}
	w.watching = false
	return true
}

// look wakes those who wait for what an ascending read shows. A read that fails
// wakes all: their own reads name the trouble.
func (s *Store) look(ctx context.Context) (found, any bool) {
	for {
		lowest, ok := s.waiters.lowest()
		if !ok {
			return found, any
		}
		any = true
		bounded, cancel := s.bound(ctx)
		events, err := s.get(bounded, &wire.GetEventsRequest{FromPosition: afterWire(lowest), Count: 1})
		cancel()
		var first consistency.Position
		if err == nil && len(events) > 0 {
			first, err = fromWire(events[0].GetPosition())
		}
		if err == nil && len(events) == 0 {
			return found, any // and nothing after higher positions either
		}
		s.waiters.wake(first, err != nil)
		if found = true; err != nil {
			return found, any
		}
	}
}

func (w *waiters) lowest() (lowest consistency.Position, any bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.waiting {
		if !any || lowest.After(one.after) {
			lowest, any = one.after, true
		}
	}
	return lowest, any
}

// wake wakes who waits for what lies before an event, or all.
func (w *waiters) wake(first consistency.Position, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.waiting {
		if all || first.After(one.after) {
			delete(w.waiting, one)
			close(one.woken)
		}
	}
}

// listen keeps a subscription and drops what comes at once: each event is a
// kick. Its name is new each time, so that no dead process holds it.
func (s *Store) listen(ctx context.Context) {
	again := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		if s.subscribe(ctx) {
			again.Reset()
		}
		timer := time.NewTimer(again.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// subscribe returns when the stream has ended, and whether anything came.
func (s *Store) subscribe(ctx context.Context) (came bool) {
	// From the head that is known: from nowhere 0.10 sends the log in disorder.
	head := toWire(consistency.Position{})
	bounded, cancel := s.bound(ctx)
	last, err := s.get(bounded, &wire.GetEventsRequest{Count: 1, Direction: wire.Direction_DESC})
	cancel()
	if err != nil {
		return false
	}
	if len(last) > 0 {
		head = last[0].GetPosition()
	}
	stream, err := s.client.CatchUpSubscribeToEvents(ctx, &wire.CatchUpSubscribeToEventStoreRequest{
		Boundary: s.cfg.Boundary, SubscriberName: "ccc-" + uuid.NewString(), AfterPosition: head})
	if err != nil {
		return false
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return came
		}
		came = true
		s.waiters.kickOff()
	}
}
