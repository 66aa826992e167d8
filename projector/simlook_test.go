package projector_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// look is what the target holds at one moment.
type look struct {
	*history
	facts   []*fact
	model   map[string]string
	waiting map[uuid.UUID]projector.Parked
	settled map[uuid.UUID]projector.Parked
	marked  map[uuid.UUID]bool
}

func (h *history) look() *look {
	l := &look{history: h, waiting: map[uuid.UUID]projector.Parked{}, settled: map[uuid.UUID]projector.Parked{}, marked: map[uuid.UUID]bool{}}
	h.mu.Lock()
	l.facts = h.facts[:len(h.facts):len(h.facts)]
	h.mu.Unlock()
	for _, p := range h.parked(projector.ParkedQuery{}) {
		l.waiting[p.Record.ID] = p
	}
	for _, p := range h.parked(projector.ParkedQuery{Settled: true}) {
		l.settled[p.Record.ID] = p
	}
	ids, err := h.m.Ahead(context.Background(), name, consistency.Position{})
	if err != nil {
		h.t.Errorf("marks: %v", err)
	}
	for _, id := range ids {
		l.marked[id] = true
	}
	l.model = values(h.m)
	return l
}

// judge compares it all with the log and with the state that was read before and
// after.
func (l *look) judge(s projector.State) {
	fail := func(format string, args ...any) {
		l.t.Errorf("at %s: %s\nstate %+v\nmodel %v\nwaiting %v\nsettled %v", s.Checkpoint.Position, fmt.Sprintf(format, args...), s, l.model, numbersOf(l.waiting), numbersOf(l.settled))
	}
	// Each effect once, in the order of each key, whole.
	times, highest := map[int]int{}, map[string]int{}
	for key, text := range l.model {
		before := 0
		for _, part := range strings.Split(text, ",")[1:] {
			n, err := strconv.Atoi(part)
			if err != nil || n < 1 || n > len(l.facts) {
				fail("key %q has %q", key, text)
				return
			}
			if n <= before {
				fail("key %q is out of order, or has an event twice", key)
			}
			before = n
			times[n]++
		}
		if before == 0 {
			fail("half of a failed handler's writes are there: %q", key)
		}
		highest[key] = before
	}
	var applied, missing, passed int
	for _, f := range l.facts {
		waits, waiting := l.waiting[f.id]
		ended, settled := l.settled[f.id]
		isApplied, isDiscarded := times[f.n] > 0, settled && ended.Outcome == projector.Discarded
		if isApplied && times[f.n] != len(f.keys) {
			fail("event %d has %d of its %d effects", f.n, times[f.n], len(f.keys))
		}
		if isApplied {
			applied++
		}
		if settled && ended.Outcome == projector.Applied && !isApplied {
			fail("event %d is settled as applied, and it is not", f.n)
		}
		if isApplied && (waiting || isDiscarded) || waiting && settled {
			fail("event %d is in two states", f.n)
		}
		if isDiscarded {
			if ended.Reason == "" {
				fail("event %d is discarded without a reason", f.n)
			}
			if ended.Settled.Equal(ended.Since) { // where it stood
				passed++
			}
		}
		if waiting { // so nothing later of its keys is applied
			for _, key := range f.keys {
				if highest[key] > f.n {
					fail("event %d waits, and of its key %q event %d is applied", f.n, key, highest[key])
				}
			}
			if errors.Is(f.sick, projector.ErrHold) && waits.Failed && !waits.Hold {
				fail("event %d is parked although nobody knows of its effect", f.n)
			}
		}
		done := isApplied || waiting || isDiscarded
		switch {
		case f.at.After(s.Checkpoint.Position):
			if done {
				l.faults.ahead.Add(1)
			}
			if done && !l.marked[f.id] {
				fail("event %d is done, beyond the checkpoint and not marked", f.n)
			}
			if l.marked[f.id] && !done {
				fail("event %d is marked and nowhere", f.n)
			}
		case !done: // it was skipped, or it is lost
			missing++
			l.mu.Lock()
			if !l.failed[f.id] || errors.Is(f.sick, projector.ErrHold) {
				fail("event %d is lost", f.n)
			}
			l.mu.Unlock()
		}
	}
	if int64(applied) != s.Applied {
		fail("%d events are applied, the state says %d", applied, s.Applied)
	}
	if int64(missing+passed) != s.Skipped {
		fail("%d events are skipped and %d discarded where it halted, the state says %d", missing, passed, s.Skipped)
	}
	if len(l.waiting) != s.Parked {
		fail("%d events wait, the state says %d", len(l.waiting), s.Parked)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, reason := range l.discarded {
		var is projector.Parked
		for _, p := range l.settled {
			if p.Record.Position == at {
				is = p
			}
		}
		for _, p := range l.waiting {
			if p.Record.Position == at {
				is = p
				if p.Due.IsZero() || p.Discard == "" {
					fail("the event at %s was to be discarded, and nobody will do it", at)
				}
			}
		}
		if is.Outcome == projector.Applied || is.Record.ID == uuid.Nil {
			fail("the event at %s was to be discarded: %s, and is %q", at, reason, is.Outcome)
		}
	}
	l.faults.skipped.Add(int64(missing))
	l.faults.passed.Add(int64(passed))
}

func numbersOf(list map[uuid.UUID]projector.Parked) (out []string) {
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s %s failed %t, due %v, discard %q, %s", p.Record.Position, p.Record.Data, p.Failed, p.Due, p.Discard, p.Outcome))
	}
	return out
}
