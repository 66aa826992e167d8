package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// replay is what a worker knows of the generation that it replaces.
type replay[Tx any] struct {
	live   Target[Tx]
	parked map[consistency.Position]Parked // in live, of the stretch that is applied
	held   bool                            // live is, so there is no time for pauses
}

// impatient says whether an event that failed is not waited for.
func (r *replay[Tx]) impatient(f Failure) bool { return r != nil && (f.Halted || r.held) }

// builder builds one projector's part of a new generation.
type builder[Tx any] struct {
	*worker[Tx]
	rebuild *rebuild[Tx]
	claimed bool
	from    progress
}

func newBuilder[Tx any](b *rebuild[Tx], p *Projector[Tx]) *builder[Tx] {
	there := *p
	there.cfg.Lanes = 1
	r := &run[Tx]{Projector: &there, reports: newReports(p.cfg), delays: newDelays(p.cfg), replay: &replay[Tx]{live: b.live}}
	return &builder[Tx]{worker: &worker[Tx]{run: r}, rebuild: b}
}

// keepTrying calls f until it succeeds, or trying again is useless.
func (w *builder[Tx]) keepTrying(ctx context.Context, what string, f func() error) error {
	for {
		err := f()
		if err == nil {
			w.delays.reset()
			return nil
		}
		if errors.Is(err, ErrHeld) || errors.Is(err, errLater) || errors.Is(err, errStopped) {
			return err
		}
		if errors.Is(err, ErrCollided) && ctx.Err() == nil {
			continue
		}
		if err := w.trouble(ctx, what, err); err != nil {
			return err
		}
	}
}

// open claims the name in the new generation, and finds what is there already.
func (w *builder[Tx]) open(ctx context.Context, next Generation[Tx]) error {
	w.run.target = next
	var claim Claim
	err := w.keepTrying(ctx, "the new generation does not let the name be claimed", func() (err error) {
		claim, err = next.Claim(ctx, w.name)
		return err
	})
	if errors.Is(err, ErrHeld) {
		return fmt.Errorf("another rebuild with the tag %q runs, or one has died and its lease has to run out: %w", w.rebuild.cfg.Tag, err)
	}
	if err != nil {
		return err
	}
	w.claim, w.claimed = claim, true
	worker, state, err := w.run.work(ctx, claim)
	if err != nil {
		return err
	}
	w.worker, w.from = worker, progress{at: state.Checkpoint, failure: state.Failure, retry: true}
	w.rebuild.meter.found(w.name, state)
	return nil
}

// giveBack releases the name.
func (w *builder[Tx]) giveBack(ctx context.Context) {
	if w.claimed {
		w.claimed = false
		w.release(ctx, w.claim)
	}
}

// liveState reads where the live generation is. What it parks, it parks together
// with a checkpoint at or beyond: so what is parked is read after this.
func (w *builder[Tx]) liveState(ctx context.Context) (s State, err error) {
	err = w.keepTrying(ctx, "the live generation's state cannot be read", func() (err error) {
		s, err = w.replay.live.State(ctx, w.name)
		return err
	})
	if err == nil && s.Parked > 0 && w.cfg.Keys == nil {
		err = fmt.Errorf("%w: projector %s: %d events are parked, and Config.Keys is nil: nobody knows what waits behind them", ErrMisuse, w.name, s.Parked)
	}
	return s, err
}

// advance builds up to where live is, while live goes on.
func (w *builder[Tx]) advance(ctx context.Context) error {
	live, err := w.liveState(ctx)
	if err == nil {
		err = w.trust(ctx, live.Checkpoint)
	}
	if err == nil {
		err = w.catchUp(ctx, live)
	}
	if err == nil {
		err = w.heed(ctx)
	}
	return err
}

// arrive does the rest while live is held: afterwards both are equally far.
func (w *builder[Tx]) arrive(ctx context.Context) (err error) {
	w.replay.held = true
	defer func() {
		w.replay.held = false
		var halted *HaltedError
		if errors.As(err, &halted) && !halted.Failure.Halted {
			err = errLater // it is tried again in its time
		}
	}()
	live, err := w.liveState(ctx)
	if err != nil {
		return err
	}
	if live.Checkpoint.Log != uuid.Nil && w.log.Log != uuid.Nil && live.Checkpoint.Log != w.log.Log {
		return &ForeignLogError{Name: w.name, Checkpoint: live.Checkpoint, Log: w.log.Log}
	}
	if err := w.catchUp(ctx, live); err != nil {
		return err
	}
	if err := w.heed(ctx); err != nil {
		return err
	}
	if live.Marked {
		if err := w.overtake(ctx); err != nil {
			return err
		}
	}
	if live.Failure.Position.After(live.Checkpoint.Position) { // with what somebody asked for about it
		return w.keepTrying(ctx, "the new generation does not keep what stands in the way", func() error {
			return w.target.Fail(ctx, w.claim, live.Failure)
		})
	}
	return nil
}

// overtake applies what lanes have done in live beyond the checkpoint, and marks
// it: it must not be done once more after the switch.
func (w *builder[Tx]) overtake(ctx context.Context) error {
	var ids []uuid.UUID
	err := w.keepTrying(ctx, "the marks cannot be listed", func() (err error) {
		ids, err = w.rebuild.live.Ahead(ctx, w.name, w.from.at.Position)
		return err
	})
	ahead := map[uuid.UUID]bool{}
	for _, id := range ids {
		ahead[id] = true
	}
	for at := w.from.at; err == nil && len(ahead) > 0; {
		var page eventstore.Page
		if page, err = w.page(ctx, at); err != nil {
			return err
		}
		if !page.UpTo.After(at.Position) {
			return errLater // the page lags
		}
		err = w.overtakePage(ctx, at, page, ahead)
		at = Checkpoint{Position: page.UpTo}
	}
	return err
}

func (w *builder[Tx]) overtakePage(ctx context.Context, at Checkpoint, page eventstore.Page, ahead map[uuid.UUID]bool) (err error) {
	w.marks = true
	if w.replay.parked, err = w.inLive(ctx, at.Position, page.UpTo); err != nil {
		return err
	}
	err = w.keepTrying(ctx, "the new generation does not take events", func() error {
		return w.target.Apply(ctx, w.claim, w.from.at, func(b Batch[Tx]) (Checkpoint, error) {
			for _, r := range page.Records {
				if !ahead[r.ID] {
					continue
				}
				if err := w.one(ctx, b, progress{}, r); err != nil {
					var failed *failedEvent
					if errors.As(err, &failed) {
						return w.from.at, errLater // in its turn it is treated as any that fails
					}
					return w.from.at, err
				}
			}
			return w.from.at, nil
		})
	})
	for _, r := range page.Records {
		delete(ahead, r.ID)
	}
	return err
}

// catchUp applies what live has dealt with, and not one event more.
func (w *builder[Tx]) catchUp(ctx context.Context, live State) error {
	bound := live.Checkpoint
	if w.from.at.Position.After(bound.Position) {
		return fmt.Errorf("%w: projector %s: an earlier rebuild of the tag %q is at %s, and the live generation at %s only: use another tag",
			ErrMisuse, w.name, w.rebuild.cfg.Tag, w.from.at.Position, bound.Position)
	}
	w.rebuild.meter.start(w.name, live)
	for bound.Position.After(w.from.at.Position) {
		page, err := w.page(ctx, w.from.at)
		if err != nil {
			return err
		}
		if page = cut(page, bound); !page.UpTo.After(w.from.at.Position) {
			// The page lags, or the log was replaced under us.
			if err := w.trust(ctx, bound); err != nil {
				return err
			}
			if err := sleep(ctx, w.delays.next()); err != nil {
				return err
			}
			continue
		}
		if w.replay.parked, err = w.inLive(ctx, w.from.at.Position, page.UpTo); err != nil {
			return err
		}
		if w.from, err = w.apply(ctx, w.from, page); err != nil {
			return err
		}
		w.rebuild.done.Events += int64(len(page.Records))
		w.rebuild.meter.add(w.name, len(page.Records), w.from.at.Position)
	}
	return nil
}

// cut ends a page at a checkpoint.
func cut(page eventstore.Page, at Checkpoint) eventstore.Page {
	if !page.UpTo.After(at.Position) {
		return page
	}
	n := 0
	for n < len(page.Records) && !page.Records[n].Position.After(at.Position) {
		n++
	}
	return eventstore.Page{Records: page.Records[:n], UpTo: at.Position, UpToID: at.EventID}
}
