package projector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
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
		if err != nil { // perhaps with a batch under way
			_ = w.look(context.WithoutCancel(ctx))
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

// aheadTarget is a LaneTarget that tells which events are marked at positions
// after one.
type aheadTarget interface {
	Ahead(ctx context.Context, name Name, after consistency.Position) ([]uuid.UUID, error)
}

func tellsAhead(t any) bool {
	_, ok := t.(aheadTarget)
	return ok
}

// overtake applies what lanes have done in live beyond the checkpoint, and marks
// it: it must not be done once more after the switch.
func (w *builder[Tx]) overtake(ctx context.Context) error {
	lanes, tells := any(w.replay.live).(aheadTarget)
	switch {
	case !tells && w.log.UniqueEventIDs && w.target.Promise() != AtLeastOnce:
		return errLater // the marks are those of lanes: not while any are ahead
	case !tells:
		return nil
	}
	var ids []uuid.UUID
	err := w.keepTrying(ctx, "the marks cannot be listed", func() (err error) {
		ids, err = lanes.Ahead(ctx, w.name, w.from.at.Position)
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
			var n counts
			for _, r := range page.Records {
				if !ahead[r.ID] {
					continue
				}
				if err := w.one(ctx, b, progress{}, r, &n); err != nil {
					var failed *failedEvent
					if errors.As(err, &failed) {
						return w.from.at, errLater // in its turn it is treated as any that fails
					}
					return w.from.at, err
				}
			}
			b.Count(n.applied, n.skipped)
			return w.from.at, nil
		})
	})
	for _, r := range page.Records {
		delete(ahead, r.ID)
	}
	return err
}

// look reads how far the new generation is.
func (w *builder[Tx]) look(ctx context.Context) error {
	state, err := w.target.State(ctx, w.name)
	if err == nil {
		w.from = progress{at: state.Checkpoint, failure: state.Failure}
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
