package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// copyParked deals with an event that was parked in live.
func (w *worker[Tx]) copyParked(b Batch[Tx], r event.Record) (done bool, err error) {
	p, found := w.replay.parked[r.Position]
	if !found || p.Outcome == Applied {
		return false, nil
	}
	waits := p.Settled.IsZero()
	if waits {
		w.parked = true
		p = w.keyed(p)
	}
	if err := b.Park(p); err != nil || waits {
		return true, err
	}
	return true, b.Settle(r.Position, Discarded, p.Reason)
}

// keyed is a parked event with the keys that it has for this program, which may
// be another one than that which parked it.
func (w *worker[Tx]) keyed(p Parked) Parked {
	if keys, err := w.keys(p.Record); err == nil && len(keys) > 0 {
		p.Keys = keys
	}
	return p
}

// inLive are the events that are or were parked in live, of a stretch. Those that
// wait are read first: one that is settled in between is found twice, not never.
func (w *builder[Tx]) inLive(ctx context.Context, after, upTo consistency.Position) (map[consistency.Position]Parked, error) {
	found := map[consistency.Position]Parked{}
	for _, settled := range []bool{false, true} {
		for q := (ParkedQuery{After: after, UpTo: upTo, Settled: settled}); ; {
			page, err := w.list(ctx, w.replay.live, q)
			if err != nil {
				return nil, err
			}
			if len(page) == 0 {
				break
			}
			for _, p := range page {
				found[p.Record.Position] = p
			}
			q.After = page[len(page)-1].Record.Position
		}
	}
	return found, nil
}

func (w *builder[Tx]) list(ctx context.Context, t Target[Tx], q ParkedQuery) (page []Parked, err error) {
	err = w.keepTrying(ctx, "the parked events cannot be listed", func() (err error) {
		page, err = t.Parked(ctx, w.name, q)
		return err
	})
	return page, err
}

// heed does with parked events what was done in live since they were parked here.
// What waited behind one of them only here, though live has applied it, follows.
func (w *builder[Tx]) heed(ctx context.Context) error {
	if !w.parked {
		return nil
	}
	free := map[string]bool{} // keys of what is settled now
	for q := (ParkedQuery{}); ; {
		here, err := w.list(ctx, w.target, q)
		if err != nil || len(here) == 0 {
			return err
		}
		last := here[len(here)-1].Record.Position
		live, err := w.inLive(ctx, q.After, last)
		if err != nil {
			return err
		}
		for _, p := range here {
			is, copied := live[p.Record.Position]
			if copied = copied && (is.Replay || !p.Replay); copied {
				err = w.heedCopy(ctx, p, is)
			} else if p.Replay && !p.Failed && (!p.Due.IsZero() || slices.ContainsFunc(p.Keys, func(key string) bool { return free[key] })) {
				err = w.applyParked(ctx, p)
			}
			if err != nil {
				return err
			}
			if !copied || !is.Settled.IsZero() {
				for _, key := range p.Keys {
					free[key] = true
				}
			}
		}
		q.After = last
	}
}

// heedCopy brings a copy to what it is in live.
func (w *builder[Tx]) heedCopy(ctx context.Context, p, live Parked) error {
	waits := live.Settled.IsZero()
	if live.Outcome == Applied {
		return w.applyParked(ctx, p)
	}
	if waits && words(p) == words(live) {
		return nil
	}
	return w.changeParked(ctx, p, func(b Batch[Tx], is Parked) error {
		if waits {
			return b.Park(w.keyed(live))
		}
		if err := b.Settle(is.Record.Position, Discarded, live.Reason); err != nil {
			return err
		}
		return wakeBehind(b, is)
	})
}

// changeParked is onParked, tried until it succeeds.
func (w *builder[Tx]) changeParked(ctx context.Context, p Parked, f func(Batch[Tx], Parked) error) error {
	return w.keepTrying(ctx, "the new generation does not take parked events", func() error {
		return w.onParked(ctx, w.from.at, p, f)
	})
}

// words is what may change while an event is parked.
func words(p Parked) any {
	return [...]any{
		p.Failed, p.Attempts, p.First.UnixMicro(), p.Last.UnixMicro(), p.Error, p.Hold, p.Due.UnixMicro(), p.Discard, p.Replay,
	}
}

// applyParked applies a parked event that was applied in live.
func (w *builder[Tx]) applyParked(ctx context.Context, p Parked) error {
	for tries := 1; ; tries++ {
		var failed *failedEvent
		err := w.changeParked(ctx, p, func(b Batch[Tx], is Parked) error {
			failed = nil
			first, err := isFirst(b, is)
			switch {
			case err != nil:
				return err
			case !first && (is.Replay || !w.replay.held): // what it waits for may be settled in live, and is seen next time
				return nil
			case !first: // that waits here only
				is.Replay, is.Due, is.Discard = true, time.Time{}, ""
				return b.Park(is)
			}
			if err := w.deliver(ctx, b.Tx(), is.Record, tries, true); err != nil {
				failed = &failedEvent{err: err}
				return fmt.Errorf("%w: %w", errStopped, failed)
			}
			b.Count(1, 0)
			if err := b.Settle(is.Record.Position, Applied, ""); err != nil {
				return err
			}
			return wakeBehind(b, is)
		})
		if !errors.Is(err, errStopped) || ctx.Err() != nil {
			return err
		}
		if again, err := w.failParkedHere(ctx, p, failed.err, tries); !again || err != nil {
			return err
		}
	}
}

// failParkedHere does with such an event, when it fails, what the policy says.
func (w *builder[Tx]) failParkedHere(ctx context.Context, p Parked, reason error, tries int) (again bool, err error) {
	r := p.Record
	f := Failure{
		Position: r.Position, EventID: r.ID, Type: r.Type,
		Attempts: tries, Last: now(), Error: text(reason), Hold: errors.Is(reason, ErrHold),
	}
	rule := w.rule(reason)
	switch {
	case tries < rule.Attempts && w.replay.held:
		return false, &HaltedError{w.name, f}
	case tries < rule.Attempts:
		w.reports.warn("an event that was parked cannot be applied, trying again", reason, "position", r.Position, "event_id", r.ID, "type", r.Type, "attempts", tries)
		return true, sleep(ctx, delayAfter(w.cfg, tries))
	case rule.Then == Halt || f.Hold:
		f.Halted = true
		return false, &HaltedError{w.name, f}
	}
	w.reports.error("an event that was parked cannot be applied", reason, "position", r.Position, "event_id", r.ID, "type", r.Type, "attempts", tries)
	return false, w.changeParked(ctx, p, func(b Batch[Tx], is Parked) error {
		if rule.Then == Skip {
			b.Count(0, 1)
			if err := b.Settle(r.Position, Discarded, "skipped: "+f.Error); err != nil {
				return err
			}
			return wakeBehind(b, is)
		}
		is.Replay, is.Failed, is.Attempts, is.Last, is.Error = true, true, tries, f.Last, f.Error
		is.Due, is.Discard = time.Time{}, ""
		return b.Park(is)
	})
}
