package projector

import (
	"context"
	"sync"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// schedule is what lanes have to do: the events that were read and are not yet
// below the checkpoint, each with those that wait for it. An event waits for the
// latest earlier one of each of its keys; so keys are kept in order, and nothing
// else holds an event up.
type schedule struct {
	mu      sync.Mutex
	changed *sync.Cond

	window  []*task          // in the order of the log, from the lowest unfinished
	latest  map[string]*task // of each key, in the window
	ready   []*task          // unfinished, taken by nobody, waiting for none
	pending int              // unfinished ones
	end     Checkpoint       // when all of the window is finished
	passed  Checkpoint       // everything up to here is finished

	uncertain bool // the answer to a transaction of a lane was lost

	stopped bool // no event is handed out any more
	closed  bool // and none is being worked on
	failed  []*task
	err     error // that ends the worker
}

// task is one event of the window.
type task struct {
	record     event.Record
	keys       []string
	checkpoint Checkpoint // after it
	next       []*task    // that wait for this one
	waits      int        // for so many
	finished   bool
	failed     error // why it could not be applied
}

func newSchedule(at Checkpoint) *schedule {
	s := &schedule{latest: map[string]*task{}, end: at, passed: at}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// add appends a page to the window. Keys are those of each of its events.
func (s *schedule) add(page eventstore.Page, end Checkpoint, keys [][]string, at func(event.Record) Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range page.Records {
		t := &task{record: r, keys: keys[i], checkpoint: at(r)}
		for _, key := range t.keys {
			if before := s.latest[key]; before != nil && !before.finished {
				before.next = append(before.next, t)
				t.waits++
			}
			s.latest[key] = t
		}
		s.window = append(s.window, t)
		if t.waits == 0 {
			s.ready = append(s.ready, t)
		}
	}
	s.pending += len(page.Records)
	s.end = end
	s.pass()
	s.changed.Broadcast()
}

// pass takes what is finished off the front of the window.
func (s *schedule) pass() {
	for len(s.window) > 0 && s.window[0].finished {
		t := s.window[0]
		s.window[0] = nil
		s.window = s.window[1:]
		s.passed = t.checkpoint
		for _, key := range t.keys {
			if s.latest[key] == t {
				delete(s.latest, key)
			}
		}
	}
	if len(s.window) == 0 {
		s.passed = s.end
	}
}

// room waits until less than so many events are pending, and less than so many
// stand above the checkpoint. It returns false when the lanes have stopped.
func (s *schedule) room(pending, window int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (s.pending >= pending || len(s.window) >= window) && !s.stopped {
		s.changed.Wait()
	}
	return !s.stopped
}

// first waits for an event that can be done, and hands it out; nil when the
// lanes have stopped.
func (s *schedule) first() *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.ready) == 0 && !s.stopped {
		s.changed.Wait()
	}
	if s.stopped {
		return nil
	}
	return s.pop()
}

func (s *schedule) pop() *task {
	t := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	return t
}

// held are the events of a transaction that is under way.
type held struct {
	tasks []*task
	count map[*task]int // of those that an event waits for, so many are in tasks
	freed []*task       // wait for nothing but events in tasks
}

// more hands out one more event for a transaction, if there is one: one that
// waited for nothing but events of this transaction, or any that is ready.
func (s *schedule) more(h *held) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	for _, t := range h.tasks[len(h.tasks)-1].next {
		if h.count == nil {
			h.count = map[*task]int{}
		}
		if h.count[t]++; h.count[t] == t.waits {
			h.freed = append(h.freed, t)
		}
	}
	switch {
	case len(h.freed) > 0:
		t := h.freed[0]
		h.freed = h.freed[1:]
		return t
	case len(s.ready) > 0:
		return s.pop()
	}
	return nil
}

// finish says that events are committed.
func (s *schedule) finish(tasks []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		t.finished = true
	}
	for _, t := range tasks {
		for _, n := range t.next {
			if n.waits--; n.waits == 0 && !n.finished {
				s.ready = append(s.ready, n)
			}
		}
	}
	s.pending -= len(tasks)
	s.pass()
	s.changed.Broadcast()
}

// stop has lanes end after what they are at.
func (s *schedule) stop() { s.halt(func() {}) }

// doubt keeps that a transaction's answer was lost.
func (s *schedule) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncertain = true
}

func (s *schedule) isUncertain() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uncertain
}

// close says that they have.
func (s *schedule) close() { s.halt(func() { s.closed = true }) }

// fail stops because of an event that could not be applied.
func (s *schedule) fail(t *task, reason error) {
	s.halt(func() {
		t.failed = reason
		s.failed = append(s.failed, t)
	})
}

// firstFailed is the one of them that stands first in the log.
func (s *schedule) firstFailed() (first *task) {
	for _, t := range s.failed {
		if first == nil || first.record.Position.After(t.record.Position) {
			first = t
		}
	}
	return first
}

// abort stops because the worker has to end.
func (s *schedule) abort(err error) {
	s.halt(func() {
		if s.err == nil {
			s.err = err
		}
	})
}

func (s *schedule) halt(because func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	because()
	s.stopped = true
	s.changed.Broadcast()
}

// reached waits until the checkpoint can move on from a place: at once where
// nothing is pending, else when a pause since the last time is over. Ok is false
// when the lanes have ended and it cannot.
func (s *schedule) reached(ctx context.Context, from Checkpoint, since time.Time, pause time.Duration) (to Checkpoint, ok bool) {
	timer := time.AfterFunc(max(0, pause-time.Since(since)), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		moved := s.passed != from
		switch {
		case s.err != nil || ctx.Err() != nil:
			return from, false
		case moved && (s.pending == 0 || s.closed || time.Since(since) >= pause):
			return s.passed, true
		case s.closed:
			return from, false
		}
		s.changed.Wait()
	}
}
