package projector

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// apply brings one page into the target, in as many batches as it takes, and
// moves the checkpoint up to where the page is complete, matches or not.
func (w *worker[Tx]) apply(ctx context.Context, from progress, page eventstore.Page) (progress, error) {
	end := Checkpoint{Position: page.UpTo, EventID: page.UpToID, Log: w.log.Log}
	todo := page.Records
	for from.at != end {
		most := len(todo)
		switch i := find(todo, from.failure); {
		case i > 0: // those before the event that failed go first
			most = i
		case i == 0: // then it is tried alone
			most = 1
			var err error
			if from, err = w.hold(ctx, from); err != nil {
				return from, err
			}
		}
		done, at, err := w.batch(ctx, from, todo[:most], end, most == len(todo))
		var failed *failedEvent
		switch {
		case errors.As(err, &failed) && ctx.Err() == nil:
			if from, err = w.fail(ctx, from, todo[failed.index], failed.err); err != nil {
				return from, err
			}
			continue
		case err != nil:
			return from, err
		case from.failure.stands(todo[:done]):
			if from.verdict == "" {
				w.reports.ok("the event that failed is applied", "position", from.failure.Position, "attempts", from.failure.Attempts+1)
			}
			from.failure, from.verdict = Failure{}, ""
		}
		from.at, todo = at, todo[done:]
	}
	return from, nil
}

// find returns the place of the failed event among records, or -1.
func find(records []event.Record, f Failure) int {
	if f.Position.IsZero() {
		return -1
	}
	for i, r := range records {
		if r.Position == f.Position && r.ID == f.EventID {
			return i
		}
	}
	return -1
}

func (f Failure) stands(in []event.Record) bool { return find(in, f) >= 0 }

// batch applies events in one transaction, as many as its time allows, and says
// how many they were and where the checkpoint is now. With all of them, and last
// of the page, it goes to the page's end.
func (w *worker[Tx]) batch(ctx context.Context, from progress, events []event.Record, end Checkpoint, last bool) (done int, at Checkpoint, err error) {
	for {
		var to Checkpoint
		err := w.target.Apply(ctx, w.claim, from.at, func(b Batch[Tx]) (Checkpoint, error) {
			began := time.Now()
			for done = 0; done < len(events); done++ {
				if done > 0 && time.Since(began) >= w.cfg.BatchTime {
					break
				}
				if err := w.one(ctx, b, from, events[done]); err != nil {
					if f, ok := err.(*failedEvent); ok { //nolint:errorlint // our own, just made
						f.index = done
					}
					return Checkpoint{}, err
				}
			}
			if to = end; done < len(events) || !last {
				to = w.checkpointAt(events[done-1])
			}
			if w.marks && w.forget {
				return to, b.Forget(to.Position)
			}
			return to, nil
		})
		var failed *failedEvent
		if errors.Is(err, ErrCollided) && ctx.Err() == nil {
			continue
		}
		if err == nil || errors.As(err, &failed) || errors.Is(err, ErrTakenOver) {
			w.delays.reset()
			return done, to, err
		}
		// The answer is lost: the batch may be there, and must not go again.
		if err := w.trouble(ctx, "the target does not take events", err); err != nil {
			return 0, from.at, err
		}
		// If it lands after this look, the comparison in the next one tells.
		state, err := w.state(ctx)
		if err != nil {
			return 0, from.at, err
		}
		if state.Checkpoint == to && to != from.at {
			return done, to, nil
		}
	}
}

// one deals with one event inside a batch: passes it, parks it, skips it, or
// hands it to the handler.
func (w *worker[Tx]) one(ctx context.Context, b Batch[Tx], from progress, r event.Record) error {
	if w.marks {
		if seen, err := b.Seen(r.ID); seen || err != nil {
			return err
		}
	}
	done, err := w.aside(ctx, b, from, r)
	if err != nil {
		return err
	}
	if !done {
		attempt := 1
		if from.failure.stands([]event.Record{r}) {
			attempt += from.failure.Attempts
		}
		if err := w.deliver(ctx, b.Tx(), r, attempt, w.replay != nil); err != nil {
			return &failedEvent{err: err}
		}
		b.Count(1, 0)
	}
	if w.marks {
		return b.Done(r.ID, r.Position)
	}
	return nil
}

// aside deals with an event that is not for the handler now: one that waits
// behind a parked one, or that could not be applied.
func (w *worker[Tx]) aside(ctx context.Context, b Batch[Tx], from progress, r event.Record) (done bool, err error) {
	if w.replay != nil {
		if done, err := w.copyParked(b, r); done || err != nil {
			return done, err
		}
	}
	failed := from.verdict != "" && from.failure.stands([]event.Record{r})
	if w.parked && !failed && !w.isFree(r) { // what failed has had its turn
		keys, err := w.keys(r)
		if err != nil {
			return false, &failedEvent{err: err}
		}
		if behind, err := w.standsBehind(b, r, keys); err != nil {
			return false, err
		} else if behind {
			w.remember(keys)
			return true, b.Park(Parked{Record: r, Keys: keys, Since: now(), Replay: w.replay != nil})
		}
	}
	if !failed {
		return false, nil
	}
	f := from.failure
	if from.verdict == Park {
		// Somebody may have said by now that it is to be discarded. Who says so
		// later finds it parked.
		state, err := w.target.State(ctx, w.name)
		if err != nil {
			return false, err
		}
		if f.Discard = state.Failure.Discard; f.Discard != "" {
			from.verdict = Skip
		}
	}
	keys, err := w.keys(r)
	switch {
	case from.verdict == Skip && f.Discard == "":
		b.Count(0, 1)
		return true, nil
	case err != nil && from.verdict == Park:
		return false, &failedEvent{err: err}
	case len(keys) == 0: // it is to be kept, and does not wait
		keys = []string{idKey(r)}
	}
	w.remember(keys)
	err = b.Park(Parked{
		Record: r, Keys: keys, Since: now(), Replay: w.replay != nil,
		Failed: true, Attempts: f.Attempts, First: f.First, Last: f.Last, Error: f.Error, Hold: f.Hold,
	})
	if from.verdict == Park || err != nil {
		return true, err
	}
	b.Count(0, 1) // and kept, with the reason
	return true, b.Settle(r.Position, Discarded, f.Discard)
}

// standsBehind says whether an event waits for a parked one: one of its keys, and
// before it in the log. Lanes, which mark, may have parked one that comes later.
func (w *worker[Tx]) standsBehind(b Batch[Tx], r event.Record, keys []string) (bool, error) {
	if parked, err := b.IsParked(keys); err != nil || !parked || !w.marks {
		return parked, err
	}
	for _, key := range keys {
		first, found, err := b.FirstParked(key)
		if err != nil || found && r.Position.After(first.Record.Position) {
			return true, err
		}
	}
	return false, nil
}

// deliver decodes an event and calls the handler, whose panic is an error.
func (w *worker[Tx]) deliver(ctx context.Context, tx Tx, r event.Record, attempt int, replay bool) (err error) {
	e, err := w.cfg.Events.Decode(r)
	if err != nil {
		return err
	}
	if _, ok := e.(event.Marker); ok {
		return nil // says that a command was refused: nothing that a model shows
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return w.handler(ctx, tx, Delivery{Record: r, Event: e, Attempt: attempt, Replay: replay})
}
