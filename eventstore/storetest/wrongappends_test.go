package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

type (
	appendFunc func(context.Context, []event.Record, []consistency.Observation) (eventstore.Receipt, error)
	records    = []event.Record
	observed_  = []consistency.Observation
)

// onAppend makes a wrong append out of the right one.
func onAppend(f func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error)) func(*wrong) {
	return func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			return f(w.Store.Append, ctx, r, seen)
		}
	}
}

// onReceipt changes the answer of an append that was saved.
func onReceipt(f func(r eventstore.Receipt) eventstore.Receipt) func(*wrong) {
	return onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		receipt, err := right(ctx, r, seen)
		if err == nil {
			receipt = f(receipt)
		}
		return receipt, err
	})
}

// onError changes the error of an append, or undoes it.
func onError(f func(err error, right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error)) func(*wrong) {
	return onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		receipt, err := right(ctx, r, seen)
		if err != nil {
			return f(err, right, ctx, r, seen)
		}
		return receipt, nil
	})
}

// renamed gives records new event_ids.
func renamed(r records) records {
	r = slices.Clone(r)
	for i := range r {
		r[i].ID = uuid.New()
	}
	return r
}

var wrongAppends = []wrongStore{
	{"drops the last of three", "append_saves_all", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		if len(r) < 3 {
			return right(ctx, r, seen)
		}
		receipt, err := right(ctx, r[:2], seen)
		receipt.Positions = append(receipt.Positions, consistency.NewPosition(0, 1<<40))
		return receipt, err
	})},
	{"refuses a key it has seen", "append_without_observations", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			return w.Store.Append(ctx, r, append(seen, at(where("same", "key"), none)))
		}
	}},
	{"gives positions backwards", "receipt_has_positions", onReceipt(func(r eventstore.Receipt) eventstore.Receipt {
		slices.Reverse(r.Positions)
		return r
	})},
	{"gives the last position only", "receipt_has_positions", onReceipt(func(r eventstore.Receipt) eventstore.Receipt {
		r.Positions = r.Positions[len(r.Positions)-1:]
		return r
	})},
	{"counts positions from somewhere else", "receipt_has_positions", onReceipt(func(r eventstore.Receipt) eventstore.Receipt {
		for i, p := range r.Positions {
			_, minor := p.Parts()
			r.Positions[i] = consistency.NewPosition(0, minor+1)
		}
		return r
	})},
	{"takes the caller's position", "append_ignores_positions", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		receipt, err := right(ctx, r, seen)
		if err == nil && !r[0].Position.IsZero() {
			receipt.Positions[0] = r[0].Position
		}
		return receipt, err
	})},
	{"keeps what stands before the bad event", "append_is_atomic", onError(func(err error, right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		if errors.Is(err, eventstore.ErrInvalid) && len(r) > 1 {
			_, _ = right(ctx, r[:1], seen)
		}
		return eventstore.Receipt{}, err
	})},
	{"saves event by event", "saves_stay_together", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (all eventstore.Receipt, err error) {
		for i := range r {
			receipt, err := right(ctx, r[i:i+1], seen)
			if err != nil {
				return all, err
			}
			seen, all.Positions = nil, append(all.Positions, receipt.Positions...)
			time.Sleep(1)
		}
		return all, nil
	})},
	{"takes an event_id twice", "duplicate_event_id", onError(func(err error, right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		if errors.Is(err, eventstore.ErrDuplicateEvent) {
			return right(ctx, renamed(r), seen)
		}
		return eventstore.Receipt{}, err
	})},
	{"drops a duplicate and keeps its neighbours", "duplicate_event_id", onError(func(err error, right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		if errors.Is(err, eventstore.ErrDuplicateEvent) && len(r) == 3 {
			_, _ = right(ctx, r[:1], seen)
		}
		return eventstore.Receipt{}, err
	})},
	{"looks for duplicates first", "conflict_before_duplicate", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			results, _ := w.Store.Snapshot(ctx, eventstore.Part{Query: everything})
			for _, have := range results[0].Records {
				if have.ID == r[0].ID {
					return eventstore.Receipt{}, fmt.Errorf("%w: %w", eventstore.Permanent, eventstore.ErrDuplicateEvent)
				}
			}
			return w.Store.Append(ctx, r, seen)
		}
	}},
	{"looks for duplicates outside the step", "duplicate_race", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			results, _ := w.Store.Snapshot(ctx, eventstore.Part{Query: everything})
			for _, have := range results[0].Records {
				if have.ID == r[len(r)-1].ID {
					return eventstore.Receipt{}, fmt.Errorf("%w: %w", eventstore.Permanent, eventstore.ErrDuplicateEvent)
				}
			}
			time.Sleep(1)
			return w.Store.Append(ctx, renamed(r), seen)
		}
	}},
}

// rekind gives errors of one kind another one.
func rekind(from eventstore.Kind, to error) func(*wrong) {
	return onError(func(err error, _ appendFunc, _ context.Context, _ records, _ observed_) (eventstore.Receipt, error) {
		if eventstore.KindOf(err) == from {
			err = fmt.Errorf("%w: %s", to, err)
		}
		return eventstore.Receipt{}, err
	})
}

var wrongKinds = []wrongStore{
	{"a conflict without a kind", "zero_means_no_match", rekind(eventstore.Conflict, errors.New("sorry"))},
	{"a conflict that is Permanent", "zero_means_no_match", rekind(eventstore.Conflict, eventstore.Permanent)},
	{"an invalid append that may be tried again", "limits_are_refused", rekind(eventstore.Permanent, eventstore.NotApplied)},
	{"a duplicate that is a Conflict", "duplicate_event_id", rekind(eventstore.Permanent, eventstore.Conflict)},
	{"an append not begun that may have been stored", "ended_context", rekind(eventstore.NotApplied, eventstore.Ambiguous)},
	{"saves what it calls not applied", "ended_context", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		receipt, err := right(context.WithoutCancel(ctx), r, seen)
		if err == nil && ctx.Err() != nil {
			return receipt, eventstore.NotStarted(ctx)
		}
		return receipt, err
	})},
	{"takes the end of a context for the end of an append", "answers_are_true", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		receipt, err := right(ctx, r, seen)
		time.Sleep(1)
		if err == nil && ctx.Err() != nil {
			return receipt, eventstore.NotStarted(ctx)
		}
		return receipt, err
	})},
	{"repairs what is no JSON", "limits_are_refused", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		r = slices.Clone(r)
		for i := range r {
			if !json.Valid(r[i].Data) {
				r[i].Data = json.RawMessage(`{}`)
			}
		}
		return right(ctx, r, seen)
	})},
	{"has limits of its own", "limits_are_reached", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		if len(r) > 999 {
			return eventstore.Receipt{}, fmt.Errorf("%w: %w", eventstore.Permanent, eventstore.ErrInvalid)
		}
		return right(ctx, r, seen)
	})},
	{"cuts big data", "big_events", onAppend(func(right appendFunc, ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		r = slices.Clone(r)
		for i := range r {
			if len(r[i].Data) > 1<<19 {
				r[i].Data = sized(1 << 19).Data
			}
		}
		return right(ctx, r, seen)
	})},
	{"fails the group for one", "neighbours_are_safe", func(w *wrong) {
		var mu sync.Mutex
		var failed time.Time
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			time.Sleep(time.Millisecond) // a group is what comes at one time
			mu.Lock()
			defer mu.Unlock()
			if failed.Equal(time.Now()) {
				return eventstore.Receipt{}, fmt.Errorf("%w: somebody else failed", eventstore.NotApplied)
			}
			receipt, err := w.Store.Append(ctx, r, seen)
			if err != nil {
				failed = time.Now()
			}
			return receipt, err
		}
	}},
}

// onSeen changes what is checked.
func onSeen(f func(w *wrong, ctx context.Context, o *consistency.Observation)) func(*wrong) {
	return func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			seen = slices.Clone(seen)
			for i := range seen {
				f(w, ctx, &seen[i])
			}
			return w.Store.Append(ctx, r, seen)
		}
	}
}

func (w *wrong) last(ctx context.Context, q consistency.Query) consistency.Position {
	results, err := w.Store.Snapshot(ctx, eventstore.Part{Query: q, LatestOnly: true})
	if err != nil {
		return none
	}
	return results[0].Last
}

var wrongObservations = []wrongStore{
	{"takes zero for no observation", "zero_means_no_match", onSeen(func(w *wrong, ctx context.Context, o *consistency.Observation) {
		if o.At.IsZero() {
			o.At = w.last(ctx, o.Query)
		}
	})},
	{"tries a conflict again until it works", "zero_means_no_match", onError(func(err error, right appendFunc, ctx context.Context, r records, _ observed_) (eventstore.Receipt, error) {
		if eventstore.KindOf(err) == eventstore.Conflict {
			return right(ctx, r, nil)
		}
		return eventstore.Receipt{}, err
	})},
	{"takes a later position for a current one", "observations_hold_by_equality", onSeen(func(w *wrong, ctx context.Context, o *consistency.Observation) {
		if last := w.last(ctx, o.Query); o.At.After(last) {
			o.At = last
		}
	})},
	{"takes the head for a current position", "observations_hold_by_equality", onSeen(func(w *wrong, ctx context.Context, o *consistency.Observation) {
		if o.At == w.last(ctx, everything) {
			o.At = w.last(ctx, o.Query)
		}
	})},
	{"takes the first position of a save for all of it", "observation_after_a_save_of_many", onSeen(func(w *wrong, ctx context.Context, o *consistency.Observation) {
		if _, minor := o.At.Parts(); minor == 1 {
			o.At = w.last(ctx, o.Query)
		}
	})},
	{"checks the first observation only", "all_observations_count", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			return w.Store.Append(ctx, r, seen[:min(1, len(seen))])
		}
	}},
	{"joins observations into one with the highest position", "all_observations_count", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			if len(seen) == 0 {
				return w.Store.Append(ctx, r, seen)
			}
			joined := seen[0]
			for _, o := range seen[1:] {
				joined.Query = joined.Query.Or(o.Query)
				if o.At.After(joined.At) {
					joined.At = o.At
				}
			}
			return w.Store.Append(ctx, r, observed_{joined})
		}
	}},
	{"checks nothing for events of no context", "guard_without_context", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			if text(r[0], "commandId") != "" {
				seen = nil
			}
			return w.Store.Append(ctx, r, seen)
		}
	}},
	{"flattens OR into AND", "queries_and_or_types", onSeen(func(_ *wrong, _ context.Context, o *consistency.Observation) {
		q := everything
		for _, c := range o.Query.Criteria() {
			for _, t := range c.Tags {
				q = q.And(where(t.Key, t.Value))
			}
			q = q.Type(c.Types...)
		}
		if !q.IsZero() {
			o.Query = q
		}
	})},
	{"flattens AND into OR", "queries_and_or_types", onSeen(func(_ *wrong, _ context.Context, o *consistency.Observation) {
		var q consistency.Query
		for _, c := range o.Query.Criteria() {
			for _, t := range c.Tags {
				q = q.Or(where(t.Key, t.Value).Type(c.Types...))
			}
		}
		if !q.IsZero() {
			o.Query = q
		}
	})},
	{"checks without types", "queries_and_or_types", onSeen(func(_ *wrong, _ context.Context, o *consistency.Observation) {
		var q consistency.Query
		for _, c := range o.Query.Criteria() {
			branch := everything
			for _, t := range c.Tags {
				branch = branch.And(where(t.Key, t.Value))
			}
			q = q.Or(branch)
		}
		o.Query = q
	})},
}
