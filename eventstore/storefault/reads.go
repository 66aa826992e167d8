package storefault

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// Snapshot implements [eventstore.Store].
func (s *Store) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	r, err := s.begin(Call{Op: OpSnapshot, Parts: parts}, func(rng *rand.Rand) Fault {
		return oneOf(rng, chance{s.cfg.ReadError, Fail(errRead)}, chance{s.cfg.StaleReads, Stale(1 + rng.IntN(4))})
	})
	if err != nil {
		return nil, err
	}
	var results []eventstore.Result
	err = r.read(ctx, func() (err error) {
		if r.Fault.back > 0 {
			results, err = s.stale(ctx, parts, r.Fault.back)
		} else {
			results, err = s.inner.Snapshot(ctx, parts...)
		}
		return err
	})
	r.end(err)
	if err != nil {
		return nil, err
	}
	return results, nil
}

// read runs f between the delays, unless the read fails.
func (r *run) read(ctx context.Context, f func() error) error {
	if err := r.s.pause(ctx, r.delay.there); err != nil {
		return fmt.Errorf("storefault: %s: %w", r.Op, err)
	}
	if r.Fault.err != nil {
		return r.Fault.err
	}
	if err := f(); err != nil {
		return err
	}
	if err := r.s.pause(ctx, r.delay.back); err != nil {
		return fmt.Errorf("storefault: %s: %w", r.Op, err)
	}
	return nil
}

// stale reads parts as of the moment some events ago.
func (s *Store) stale(ctx context.Context, parts []eventstore.Part, events int) ([]eventstore.Result, error) {
	if err := eventstore.CheckParts(parts...); err != nil {
		return nil, err
	}
	end, _, err := s.lastUpTo(ctx, consistency.Position{})
	for range events {
		before := end.Prev()
		if end = before; err != nil || before.IsZero() {
			break
		}
		end, _, err = s.lastUpTo(ctx, before)
	}
	if err != nil || end.IsZero() { // the log was empty then
		return make([]eventstore.Result, len(parts)), err
	}
	bounded := make([]eventstore.Part, len(parts))
	for i, p := range parts {
		if p.UpTo.IsZero() || p.UpTo.After(end) {
			p.UpTo = end
		}
		bounded[i] = p
	}
	return s.inner.Snapshot(ctx, bounded...)
}

// lastUpTo returns the last event at or before a position (zero: of the log).
func (s *Store) lastUpTo(ctx context.Context, p consistency.Position) (consistency.Position, uuid.UUID, error) {
	results, err := s.inner.Snapshot(ctx, eventstore.Part{Query: consistency.All(), UpTo: p, LatestOnly: true})
	if err != nil || len(results[0].Records) == 0 {
		return consistency.Position{}, uuid.Nil, err
	}
	return results[0].Last, results[0].Records[0].ID, nil
}

// Page implements [eventstore.Store].
func (s *Store) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	r, err := s.begin(Call{Op: OpPage, Parts: []eventstore.Part{{Query: q, After: after}}}, func(rng *rand.Rand) Fault {
		return oneOf(rng, chance{s.cfg.ReadError, Fail(errRead)}, chance{s.cfg.LagPages, Lag(1 + rng.IntN(4))})
	})
	if err != nil {
		return eventstore.Page{}, err
	}
	var page eventstore.Page
	err = r.read(ctx, func() error {
		var err error
		if page, err = s.inner.Page(ctx, q, after, limit); err == nil && r.Fault.back > 0 && page.UpTo.After(after) {
			err = s.lag(ctx, &page, after, r.Fault.back)
		}
		return err
	})
	r.end(err)
	if err != nil {
		return eventstore.Page{}, err
	}
	return page, nil
}

// lag ends the page some matches early.
func (s *Store) lag(ctx context.Context, page *eventstore.Page, after consistency.Position, matches int) (err error) {
	left := max(0, len(page.Records)-matches)
	page.Records = append([]event.Record(nil), page.Records[:left]...)
	if left > 0 {
		last := page.Records[left-1]
		page.UpTo, page.UpToID = last.Position, last.ID
		return nil
	}
	// As if the log ended where the page begins.
	page.UpTo, page.UpToID = consistency.Position{}, uuid.Nil
	if !after.IsZero() {
		page.UpTo, page.UpToID, err = s.lastUpTo(ctx, after)
	}
	return err
}

// Wait implements [eventstore.Store].
func (s *Store) Wait(ctx context.Context, after consistency.Position) error {
	r, err := s.begin(Call{Op: OpWait, Parts: []eventstore.Part{{After: after}}}, func(rng *rand.Rand) Fault {
		return oneOf(rng, chance{s.cfg.LoseHints, loseHint})
	})
	if err != nil {
		return err
	}
	if r.Fault.name == loseHint.name {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.done:
			err = eventstore.Closed()
		}
	} else {
		err = s.inner.Wait(ctx, after)
	}
	r.end(err)
	return err
}

var loseHint = Fault{name: "lose hint", sends: 1}
