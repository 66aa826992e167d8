package storefault

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// flight is an append that is on its way after its caller was answered.
type flight struct {
	n       int
	records []event.Record
	seen    []consistency.Observation
	calls   int // it lands before that call from now; 0: it does not go by calls
	timer   *time.Timer
}

// fly puts a copy of an append on its way.
func (s *Store) fly(c Call, f Fault) {
	late := &flight{n: c.N, records: slices.Clone(c.Records), seen: slices.Clone(c.Seen), calls: f.calls}
	for i, r := range late.records {
		r.Data = bytes.Clone(r.Data)
		r.Metadata.Custom = maps.Clone(r.Metadata.Custom)
		late.records[i] = r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.flights = append(s.flights, late)
	if f.after > 0 {
		late.timer = time.AfterFunc(f.after, func() {
			if s.claim(late) {
				s.land(late)
			}
		})
	}
}

// due takes off the list what lands before the call that begins. The lock is
// held.
func (s *Store) due() (due []*flight) {
	s.flights = slices.DeleteFunc(s.flights, func(f *flight) bool {
		if f.calls == 0 {
			return false
		}
		if f.calls--; f.calls > 0 {
			return false
		}
		s.landing++
		due = append(due, f)
		return true
	})
	return due
}

// claim takes f off the list. False: somebody else lands or dropped it.
func (s *Store) claim(f *flight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.flights, f)
	if i < 0 {
		return false
	}
	s.flights = slices.Delete(s.flights, i, i+1)
	s.landing++
	return true
}

// land sends what was claimed.
func (s *Store) land(f *flight) {
	_, err := s.inner.Append(context.Background(), f.records, f.seen)
	s.logf("append %d lands late: %v", f.n, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.counts.Landed++
	} else {
		s.counts.Void++
	}
	if s.landing--; s.landing == 0 && s.landed != nil {
		close(s.landed)
		s.landed = nil
	}
}

// idle waits until nothing lands at this moment.
func (s *Store) idle() {
	s.mu.Lock()
	if s.landing > 0 && s.landed == nil {
		s.landed = make(chan struct{})
	}
	landed := s.landed
	s.mu.Unlock()
	if landed != nil {
		<-landed
	}
}

// InFlight returns how many appends are on their way.
func (s *Store) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flights)
}

// Settle lands all that is on its way, in the order it was sent, and returns
// when it has landed: afterwards nothing lands that was sent before.
func (s *Store) Settle() {
	for _, f := range s.take(true) {
		s.land(f)
	}
	s.idle()
}

// Drop loses all that is on its way.
func (s *Store) Drop() {
	s.take(false)
	s.idle()
}

// take empties the list, to land it or to forget it.
func (s *Store) take(land bool) []*flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.flights
	s.flights = nil
	for _, f := range all {
		if f.timer != nil {
			f.timer.Stop()
		}
		if land {
			s.landing++
		}
	}
	return all
}
