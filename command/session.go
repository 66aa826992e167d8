package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// session is what a call knows between its attempts.
type session struct {
	runner   *Runner
	name     string
	id       uuid.UUID
	idText   string
	guard    consistency.Query // observed as: no match
	metadata event.Metadata
	record   bool // every refusal, and nothing to do
	reading  reading
	open     [][]sighting        // what each attempt that may still land has seen
	history  []eventstore.Result // of the contexts, from the read that found own events; nil if it was a catch-up
	sending  []sighting          // of the append that runs; still set where the store panicked
	collided []sighting          // what the last attempt had seen, if it was a conflict
	sent     bool                // an append was answered as permanent: a doubled one may have landed before
	attempts int
	atOnce   bool // the next attempt needs no pause
	pauses   pauses
	trouble  error // ErrContended or ErrUnavailable: why the last attempt settled nothing
	reason   error // the same in detail
}

// errRetry is around errors that another attempt may mend.
var errRetry = errors.New("try again")

func retryable(err error) error {
	if errors.Is(err, eventstore.Permanent) {
		return err
	}
	return fmt.Errorf("%w: %w", errRetry, err)
}

// append saves under the guard: nothing with this command's ID in the log.
func (s *session) append(ctx context.Context, records []event.Record, seen []sighting) error {
	observations := make([]consistency.Observation, 0, len(seen)+1)
	for _, o := range seen {
		observations = append(observations, consistency.Observation{Query: o.leaf.query, At: o.at})
	}
	observations = append(observations, consistency.Observation{Query: s.guard})
	s.sending = seen
	receipt, err := s.runner.store.Append(ctx, records, observations)
	s.sending = nil
	if err != nil {
		return err
	}
	if len(receipt.Positions) != len(records) {
		return fmt.Errorf("%w: the receipt has %d positions for %d events", eventstore.Ambiguous, len(receipt.Positions), len(records))
	}
	for i := range records {
		records[i].Position = receipt.Positions[i]
	}
	return nil
}

// forgetMoved drops the open attempts that can no longer land: one of their
// queries has moved on, to a later position. (An earlier one is a stale read.)
func (s *session) forgetMoved() {
	s.forget(func(text string) (consistency.Position, bool) {
		for i := range s.reading.slots {
			if sl := &s.reading.slots[i]; sl.leaf.text == text {
				return sl.at, true
			}
		}
		return consistency.Position{}, false
	})
	for _, o := range s.collided {
		for i := range s.reading.slots {
			if sl := &s.reading.slots[i]; sl.leaf.text == o.leaf.text && sl.at == o.at {
				s.runner.queue.cool(o.leaf.text) // not this one
			}
		}
	}
	s.collided = nil
}

func (s *session) forget(now func(text string) (consistency.Position, bool)) {
	still := s.open[:0]
	for _, seen := range s.open {
		moved := false
		for _, o := range seen {
			if at, ok := now(o.leaf.text); ok && at.After(o.at) {
				moved = true
				break
			}
		}
		if !moved {
			still = append(still, seen)
		}
	}
	s.open = still
}

// look reads the id, and how far the queries of open attempts are.
func (s *session) look(ctx context.Context) ([]event.Record, error) {
	s.history = nil
	parts := []eventstore.Part{{Query: s.guard}}
	at := map[string]int{}
	for _, seen := range s.open {
		for _, o := range seen {
			if _, ok := at[o.leaf.text]; !ok {
				at[o.leaf.text] = len(parts)
				parts = append(parts, eventstore.Part{Query: o.leaf.query, LatestOnly: true})
			}
		}
	}
	results, err := s.snapshot(ctx, parts)
	if err != nil {
		return nil, err
	}
	own := results[0].Records
	if len(own) == 0 {
		s.forget(func(text string) (consistency.Position, bool) {
			i, ok := at[text]
			return results[i].Last, ok
		})
	}
	return own, nil
}

func (s *session) snapshot(ctx context.Context, parts []eventstore.Part) ([]eventstore.Result, error) {
	results, err := s.runner.store.Snapshot(ctx, parts...)
	if err == nil && len(results) != len(parts) {
		err = fmt.Errorf("the store gave %d results for %d parts", len(results), len(parts))
	}
	if err != nil {
		return nil, retryable(err)
	}
	return results, nil
}

// contexts names what the call depends on, as far as it is known.
func (s *session) contexts() []string {
	if s.runner.queue.places.Load() == 0 {
		return nil
	}
	var names []string
	for i := range s.reading.slots {
		names = append(names, s.reading.slots[i].leaf.text)
	}
	for _, l := range s.reading.wanted {
		names = append(names, l.text)
	}
	return names
}

func (s *session) heat(seen []sighting) {
	names := make([]string, len(seen))
	for i, o := range seen {
		names[i] = o.leaf.text
	}
	s.runner.queue.heat(names)
}

// rememberSaved keeps the states after a confirmed save, of no other. What
// goes wrong here (a Weight that panics) does not undo the save.
func (s *session) rememberSaved(after []slot, records []event.Record) {
	defer func() { _ = recover() }()
	for i := range after {
		sl := &after[i]
		if !sl.used {
			continue
		}
		if sl.own > 0 {
			sl.at = records[sl.own-1].Position
		}
		s.runner.cache.remember(sl.leaf, sl.kept, sl.at)
	}
}

func (s *session) coolAll() {
	for _, o := range s.collided {
		s.runner.queue.cool(o.leaf.text)
	}
	s.collided = nil
}
