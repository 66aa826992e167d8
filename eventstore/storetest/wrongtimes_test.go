package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// hiding has reads pass over some positions for a while.
type hiding struct {
	*wrong
	mu     sync.Mutex
	hidden map[consistency.Position]bool
}

func hide(w *wrong) *hiding {
	h := &hiding{wrong: w, hidden: map[consistency.Position]bool{}}
	onRecords(func(_ eventstore.Part, all records) records {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(all), func(r event.Record) bool { return h.hidden[r.Position] })
	})(w)
	inner := w.snapshot
	w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
		results, err := inner(ctx, parts...)
		for i := range results {
			if results[i].Last = none; len(results[i].Records) > 0 {
				results[i].Last = results[i].Records[len(results[i].Records)-1].Position
			}
		}
		return results, err
	}
	return h
}

func (h *hiding) set(hidden bool, positions ...consistency.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range positions {
		h.hidden[p] = hidden
	}
}

// saving saves, hides some of the save, and shows it a little later: before
// the answer, or after it (early).
func (h *hiding) saving(which func(r eventstore.Receipt) []consistency.Position, early bool) {
	var saves atomic.Int64
	h.wrong.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		h.mu.Lock()
		receipt, err := h.wrong.Store.Append(ctx, r, seen)
		var some []consistency.Position
		if err == nil && saves.Add(1)%3 == 0 {
			some = which(receipt)
		}
		for _, p := range some {
			h.hidden[p] = true
		}
		h.mu.Unlock()
		if early {
			time.AfterFunc(3, func() { h.set(false, some...) })
			return receipt, err
		}
		time.Sleep(time.Duration(1 + 5*len(some))) // others get past it meanwhile
		h.set(false, some...)
		return receipt, err
	}
}

// paced makes reads take time, so that writes come between them where time is
// virtual.
func paced(w *wrong) {
	inner := *w
	w.snapshot = func(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
		time.Sleep(1)
		return inner.Snapshot(ctx, parts...)
	}
	w.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
		time.Sleep(1)
		return inner.Page(ctx, q, after, limit)
	}
}

func wholeSave(r eventstore.Receipt) []consistency.Position { return r.Positions }

var wrongMoments = []wrongStore{
	{"answers before it shows", "answers_are_visible", func(w *wrong) { hide(w).saving(wholeSave, true) }},
	{"answers a conflict before it shows its cause", "conflicts_are_visible", func(w *wrong) { hide(w).saving(wholeSave, false) }},
	{"shows a lower position later", "positions_appear_in_order", func(w *wrong) { hide(w).saving(wholeSave, false); paced(w) }},
	{"shows half of a save", "saves_are_seen_whole", func(w *wrong) {
		hide(w).saving(func(r eventstore.Receipt) []consistency.Position { return r.Positions[1:] }, false)
		paced(w)
	}},
	{"reads parts one after the other", "snapshot_is_one_moment", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			time.Sleep(1)
			return w.Store.Append(ctx, r, seen)
		}
		w.snapshot = func(ctx context.Context, parts ...eventstore.Part) (all []eventstore.Result, err error) {
			for _, p := range parts {
				results, err := w.Store.Snapshot(ctx, p)
				if err != nil {
					return nil, err
				}
				all = append(all, results...)
				time.Sleep(1)
			}
			return all, nil
		}
	}},
}

var wrongWaits = []wrongStore{
	{"waits for the next event, whatever is there", "wait_is_level_triggered", func(w *wrong) {
		w.wait = func(ctx context.Context, _ consistency.Position) error {
			return w.Store.Wait(ctx, w.last(ctx, everything))
		}
	}},
	{"never wakes", "wait_wakes", func(w *wrong) {
		w.wait = func(ctx context.Context, after consistency.Position) error {
			if w.last(ctx, everything).After(after) {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	{"wakes one of many", "wait_wakes", func(w *wrong) {
		token := make(chan struct{}, 1)
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			time.Sleep(1)
			receipt, err := w.Store.Append(ctx, r, seen)
			if err == nil {
				select {
				case token <- struct{}{}:
				default:
				}
			}
			return receipt, err
		}
		w.wait = func(ctx context.Context, after consistency.Position) error {
			if w.last(ctx, everything).After(after) {
				return nil
			}
			select {
			case <-token:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}},
	{"loses what is written while it begins to wait", "wait_loses_no_wakeup", func(w *wrong) {
		var calls atomic.Int64
		w.wait = func(ctx context.Context, after consistency.Position) error {
			if calls.Add(1)%10 != 0 {
				return w.Store.Wait(ctx, after)
			}
			time.Sleep(1)
			return w.Store.Wait(ctx, w.last(ctx, everything))
		}
	}},
	{"ignores its context", "wait_ends_with_its_context", func(w *wrong) {
		w.wait = func(_ context.Context, after consistency.Position) error {
			return w.Store.Wait(context.Background(), after)
		}
	}},
	{"calls the end of a context its own", "wait_ends_with_its_context", func(w *wrong) {
		w.wait = func(ctx context.Context, after consistency.Position) error {
			if w.Store.Wait(ctx, after) != nil {
				return errors.New("sorry")
			}
			return nil
		}
	}},
	{"always says look again", "wait_is_quiet", func(w *wrong) {
		w.wait = func(ctx context.Context, _ consistency.Position) error {
			select {
			case <-time.After(time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}},
}

// outside checks before the step and not in it.
func outside(w *wrong) {
	w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
		for _, o := range seen {
			if w.last(ctx, o.Query) != o.At {
				return eventstore.Receipt{}, fmt.Errorf("%w: as far as I saw", eventstore.Conflict)
			}
		}
		time.Sleep(1)
		return w.Store.Append(ctx, r, nil)
	}
}

var wrongRaces = []wrongStore{
	{"checks outside the step", "race_has_one_winner", outside},
	{"checks outside the step, ids", "race_on_a_command_id", outside},
	{"checks outside the step, skewed", "race_of_skewed_writes", outside},
	{"checks outside the step, joined", "race_of_joined_queries", outside},
	{"checks outside the step, counters", "race_of_counters", outside},
	{"checks no more than one observation", "random_calls_agree_with_a_model", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			if len(seen) > 1 {
				seen = nil
			}
			return w.Store.Append(ctx, r, seen)
		}
	}},
	{"takes any write for a conflict", "race_on_different_keys", func(w *wrong) {
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			head := w.last(ctx, everything)
			time.Sleep(1)
			return w.Store.Append(ctx, r, append(seen, at(everything, head)))
		}
	}},
	{"says saved where it was not", "race_has_one_winner", onError(func(err error, right appendFunc, ctx context.Context, r records, _ observed_) (eventstore.Receipt, error) {
		if eventstore.KindOf(err) == eventstore.Conflict {
			return eventstore.Receipt{Positions: []consistency.Position{consistency.NewPosition(0, 1)}}, nil
		}
		return eventstore.Receipt{}, err
	})},
}

var wrongCloses = []wrongStore{
	{"works on when closed", "closed_store", func(w *wrong) { w.close = func() error { return nil } }},
	{"cannot be closed twice", "closed_store", func(w *wrong) {
		first := true
		w.close = func() error {
			if !first {
				return eventstore.Closed()
			}
			first = false
			return w.Store.Close()
		}
	}},
	{"leaves waits alone", "close_ends_waits", func(w *wrong) { w.close = func() error { return nil } }},
	{"has an error of its own for what runs into Close", "close_under_load", func(w *wrong) {
		onError(func(err error, _ appendFunc, _ context.Context, _ records, _ observed_) (eventstore.Receipt, error) {
			return eventstore.Receipt{}, fmt.Errorf("%w: broken pipe", eventstore.Permanent)
		})(w)
	}},
}
