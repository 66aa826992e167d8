package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// tend deals with the parked events whose time has come. It is cheap where
// nothing is parked.
func (w *worker[Tx]) tend(ctx context.Context, at Checkpoint) error {
	for w.parked {
		w.tended = time.Now()
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		if w.parked = state.Parked > 0; !w.parked {
			clear(w.behind)
		}
		if !w.due(state) {
			return nil
		}
		due, err := w.target.Parked(ctx, w.name, ParkedQuery{DueBy: now()})
		for i := 0; i < len(due) && err == nil; i++ {
			if err = w.retryParked(ctx, at, due[i]); errors.Is(err, ErrTakenOver) {
				return err
			}
		}
		// Whether it was done is seen when they are listed again.
		if err := w.trouble(ctx, "the target does not take parked events", err); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker[Tx]) due(s State) bool { return !s.Due.IsZero() && !s.Due.After(now()) }

// retryParked does what is due about one parked event. All of it is in one
// transaction that looks first whether the event still waits, and what for: an
// earlier one may have been committed although its answer was lost, and somebody
// may have spoken since.
func (w *worker[Tx]) retryParked(ctx context.Context, at Checkpoint, p Parked) error {
	err := w.onParked(ctx, at, p, func(b Batch[Tx], is Parked) error {
		p.Due = is.Due
		as, reason := Applied, ""
		if is.Discard != "" {
			as, reason = Discarded, is.Discard
		} else if first, err := isFirst(b, is); err != nil {
			return err
		} else if !first { // it was asked for out of its turn, and is tried when that comes
			is.Failed, is.Due = false, time.Time{}
			return b.Park(is)
		} else if is.Due.Unix() <= 0 { // by Ask: from now on another one can be told from this
			is.Due = now()
			return b.Park(is)
		} else if err := w.deliver(ctx, b.Tx(), is.Record, is.Attempts+1, is.Replay); err != nil {
			return &failedEvent{err: err}
		} else {
			b.Count(1, 0)
		}
		if err := b.Settle(is.Record.Position, as, reason); err != nil {
			return err
		}
		return wakeBehind(b, is)
	})
	var failed *failedEvent
	if errors.As(err, &failed) && ctx.Err() == nil {
		return w.failParked(ctx, at, p, failed.err)
	}
	return err
}

// failParked keeps that a parked event could not be applied again. What somebody
// asked for during that try is still to be done.
func (w *worker[Tx]) failParked(ctx context.Context, at Checkpoint, p Parked, reason error) error {
	last := now()
	return w.onParked(ctx, at, p, func(b Batch[Tx], is Parked) error {
		if is.First.IsZero() {
			is.First = last
		}
		is.Failed, is.Attempts, is.Last, is.Error = true, is.Attempts+1, last, text(reason)
		is.Hold = is.Hold || errors.Is(reason, ErrHold)
		if is.Due.Equal(p.Due) && is.Discard == "" {
			is.Due = time.Time{}
			if rule := w.rule(reason); is.Attempts < rule.Attempts || is.Hold {
				is.Due = last.Add(delayAfter(w.cfg, is.Attempts))
			}
		}
		w.reports.error("a parked event cannot be applied", reason, "position", is.Record.Position,
			"event_id", is.Record.ID, "type", is.Record.Type, "attempts", is.Attempts)
		return b.Park(is)
	})
}

// onParked runs f in a transaction that leaves the checkpoint where it is, with
// the parked event as the target has it, if it still waits.
func (w *worker[Tx]) onParked(ctx context.Context, at Checkpoint, p Parked, f func(Batch[Tx], Parked) error) error {
	return w.target.Apply(ctx, w.claim, at, func(b Batch[Tx]) (Checkpoint, error) {
		is, waits, err := b.ParkedAt(p.Record.Position)
		if err == nil && waits {
			err = f(b, is)
		}
		return at, err
	})
}

// isFirst says whether nothing that waits stands before a parked event.
func isFirst[Tx any](b Batch[Tx], p Parked) (bool, error) {
	for _, key := range p.Keys {
		first, found, err := b.FirstParked(key)
		if err != nil {
			return false, err
		}
		if found && first.Record.Position != p.Record.Position {
			return false, nil
		}
	}
	return true, nil
}

// wakeBehind has those tried that waited for an event that is settled now, if
// they wait for no other: in the same transaction, so that a crash forgets none.
func wakeBehind[Tx any](b Batch[Tx], settled Parked) error {
	for _, key := range settled.Keys {
		next, found, err := b.FirstParked(key)
		if err != nil {
			return err
		}
		if !found || next.Failed || !next.Due.IsZero() {
			continue
		}
		if first, err := isFirst(b, next); err != nil {
			return err
		} else if first {
			next.Due = now()
			if err := b.Park(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// standStill waits at an event that failed, for a time or until somebody has
// asked for something, and returns what is kept of it. Parked events are dealt
// with meanwhile.
func (w *worker[Tx]) standStill(ctx context.Context, at Checkpoint, limit time.Duration) (Failure, error) {
	end := time.Now().Add(limit)
	for {
		if err := w.tend(ctx, at); err != nil {
			return Failure{}, err
		}
		state, err := w.state(ctx)
		if err != nil {
			return Failure{}, err
		}
		left := time.Until(end)
		if asked := state.Asked != w.asked; asked || left <= 0 {
			w.asked = state.Asked
			return state.Failure, nil
		}
		if err := w.watch(ctx, state, left); err != nil {
			return Failure{}, err
		}
	}
}

// watch waits for a change of the target, at most for a time, or until a parked
// event is due.
func (w *worker[Tx]) watch(ctx context.Context, state State, limit time.Duration) error {
	if !state.Due.IsZero() {
		limit = min(limit, max(time.Until(state.Due), time.Millisecond))
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := w.target.Wait(waiting, w.name, state)
	if waiting.Err() != nil {
		return ctx.Err()
	}
	return w.trouble(ctx, "the target gives no hints", err)
}

// awaitWord returns when there is something to do about a parked event, or ctx
// ends. It runs beside a wait for the log and leaves trouble to others.
func (w *worker[Tx]) awaitWord(ctx context.Context) {
	for {
		state, err := w.target.State(ctx, w.name)
		if err != nil || w.due(state) {
			return
		}
		limit := w.cfg.Poll
		if !state.Due.IsZero() {
			limit = min(limit, max(time.Until(state.Due), time.Millisecond))
		}
		waiting, cancel := context.WithTimeout(ctx, limit)
		err = w.target.Wait(waiting, w.name, state)
		ended := waiting.Err() != nil
		cancel()
		if ctx.Err() != nil || err != nil && !ended {
			return
		}
	}
}

// adopt brings the parked events that an earlier worker left, perhaps one of
// another program, to what this one's keys say, and has those tried that wait
// for nothing.
func (w *worker[Tx]) adopt(ctx context.Context, state State) error {
	if state.Parked == 0 || w.replay != nil {
		return nil
	}
	if w.cfg.Keys == nil {
		return fmt.Errorf("%w: %d events are parked, and Config.Keys is nil: nobody knows what waits behind them", ErrMisuse, state.Parked)
	}
	err := w.eachParked(ctx, state.Checkpoint, func(b Batch[Tx], is Parked) error {
		keys, err := w.keys(is.Record)
		if err != nil || len(keys) == 0 || slices.Equal(keys, is.Keys) {
			w.remember(is.Keys)
			return nil // what it was parked under still stands
		}
		is.Keys = keys
		w.remember(keys)
		return b.Park(is)
	})
	if err != nil {
		return err
	}
	return w.eachParked(ctx, state.Checkpoint, func(b Batch[Tx], is Parked) error {
		first, err := isFirst(b, is)
		if err != nil || !first || is.Failed || !is.Due.IsZero() {
			return err
		}
		is.Due = now()
		return b.Park(is)
	})
}

// eachParked calls f for each parked event that waits, in transactions of some
// of them each.
func (w *worker[Tx]) eachParked(ctx context.Context, at Checkpoint, f func(Batch[Tx], Parked) error) error {
	for q := (ParkedQuery{}); ; {
		page, err := w.target.Parked(ctx, w.name, q)
		if err == nil && len(page) == 0 {
			return nil
		}
		if err == nil {
			err = w.target.Apply(ctx, w.claim, at, func(b Batch[Tx]) (Checkpoint, error) {
				for _, p := range page {
					is, waits, err := b.ParkedAt(p.Record.Position)
					if err == nil && waits {
						err = f(b, is)
					}
					if err != nil {
						return at, err
					}
				}
				return at, nil
			})
		}
		if err == nil {
			q.After = page[len(page)-1].Record.Position
		}
		if err := w.trouble(ctx, "the parked events cannot be looked through", err); err != nil {
			return err
		}
	}
}
