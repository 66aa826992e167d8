package projector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// releaseLimit is the time that giving the name back may take after the end.
const releaseLimit = 5 * time.Second

// Run projects until ctx ends, and then returns nil with nothing left running.
// It waits as a standby while another worker of the name is active, also one of
// another process, and takes over when that one ends.
//
// No failing event and no trouble of the store or the target ends it: those are
// tried again, reported through [Config.Logger] and shown by WaitFor. It returns
// an error only where it cannot work at all: [ErrMisuse], [ErrForeignLog], a
// store or a target that was closed.
func (p *Projector[Tx]) Run(ctx context.Context) error {
	if p.misuse != nil {
		return p.misuse
	}
	r := &run[Tx]{Projector: p, reports: newReports(p.cfg), delays: newDelays(p.cfg)}
	defer r.watch()()
	for {
		err := r.tenure(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrForeignLog): // names the projector itself
			return err
		case useless(err):
			return fmt.Errorf("projector %s: %w", p.name, err)
		case errors.Is(err, errAnew):
			continue
		}
		r.reports.tell("another worker took over, standing by", err)
	}
}

// useless says whether trying again can never help.
func useless(err error) bool {
	return errors.Is(err, ErrForeignLog) || errors.Is(err, ErrMisuse) || errors.Is(err, eventstore.ErrClosed) || errors.Is(err, ErrClosed)
}

// run is one call of Run.
type run[Tx any] struct {
	*Projector[Tx]
	reports *reports
	delays  *delays     // after trouble of the store or the target
	replay  *replay[Tx] // of a rebuild; else nil
}

// worker is a run that holds the name.
type worker[Tx any] struct {
	*run[Tx]
	claim  Claim
	marks  bool                // events are marked, and looked for among the marks
	forget bool                // marks are dropped as soon as the checkpoint has passed them
	parked bool                // there may be parked events that wait
	behind map[string]struct{} // all keys of those, and perhaps others; nil: not known
	tended time.Time           // when the parked events were looked after last
	asked  int64               // the State.Asked that was heeded
	holds  map[uuid.UUID]bool  // events that failed with ErrHold in a lane
}

// progress is how far a worker is, as the target has it.
type progress struct {
	at      Checkpoint
	failure Failure // of the event that comes next; zero: none
	retry   bool    // try that event at once: a new owner may be a new program
	verdict Action  // that event's tries are used up: Park or Skip it; else empty
}

// tenure waits for the name, works under it until that ends, and gives it back.
func (r *run[Tx]) tenure(ctx context.Context) error {
	claim, err := r.standBy(ctx)
	if err != nil {
		return err
	}
	defer r.release(ctx, claim)
	w, state, err := r.work(ctx, claim)
	if err != nil {
		return err
	}
	if !state.Failure.Position.After(state.Checkpoint.Position) {
		state.Failure = Failure{} // it was kept too late
	}
	r.reports.ok("active", "checkpoint", state.Checkpoint.Position, "epoch", claim.Epoch, "promise", r.target.Promise())
	return w.follow(ctx, progress{at: state.Checkpoint, failure: state.Failure, retry: true})
}

// work makes the worker of a claim. Only a checkpoint that is read under the
// claim is known to be where the last owner left it: from now on nobody else
// moves it.
func (r *run[Tx]) work(ctx context.Context, claim Claim) (*worker[Tx], State, error) {
	w := &worker[Tx]{run: r, claim: claim, holds: map[uuid.UUID]bool{}}
	state, err := w.state(ctx)
	if err != nil {
		return nil, state, err
	}
	w.parked, w.asked = state.Parked > 0, state.Asked
	if w.replay == nil && w.cfg.Lanes == 1 { // lanes would have to share it
		w.behind = map[string]struct{}{}
	}
	// Marks are kept where an event may come again although the checkpoint is
	// compared: the log may hold it twice, or lanes were ahead of the checkpoint,
	// or the effect is not in the target's transaction.
	promise := r.target.Promise()
	w.forget = r.log.UniqueEventIDs
	w.marks = !r.log.UniqueEventIDs || state.Marked || promise == AtLeastOnce
	if err := r.trust(ctx, state.Checkpoint); err != nil {
		return nil, state, err
	}
	return w, state, w.adopt(ctx, state)
}

// standBy claims the name as soon as it is free.
func (r *run[Tx]) standBy(ctx context.Context) (Claim, error) {
	for {
		// The state comes first: a release after it ends the wait below at once.
		state, err := r.target.State(ctx, r.name)
		if err == nil {
			var claim Claim
			if claim, err = r.target.Claim(ctx, r.name); err == nil {
				r.delays.reset()
				return claim, nil
			}
		}
		if errors.Is(err, ErrHeld) {
			r.delays.reset()
			err = r.target.Wait(ctx, r.name, state)
		}
		if err := r.trouble(ctx, "the target does not let the name be claimed", err); err != nil {
			return Claim{}, err
		}
	}
}

// trouble reports an error that may pass and waits a while. It returns an error
// where going on is useless or ctx has ended. Without an error it does nothing.
func (r *run[Tx]) trouble(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case useless(err) || errors.Is(err, ErrTakenOver):
		return err
	}
	r.reports.warn(what+", trying again", err)
	return sleep(ctx, r.delays.next())
}

// release gives the name back, so that a standby need not wait for the lease.
func (r *run[Tx]) release(ctx context.Context, claim Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	if err := r.target.Release(ctx, claim); err != nil {
		r.reports.warn("the name is not released, a standby waits for the lease", err)
	}
}

// state reads the state under our claim. Where that was taken over meanwhile,
// the next batch is refused.
func (w *worker[Tx]) state(ctx context.Context) (State, error) {
	for {
		state, err := w.target.State(ctx, w.name)
		if err == nil {
			return state, nil
		}
		if err := w.trouble(ctx, "the target's state cannot be read", err); err != nil {
			return State{}, err
		}
	}
}

// follow brings the log into the target for as long as the worker works: side by
// side in lanes where that is wanted and no event has failed, else in order.
func (w *worker[Tx]) follow(ctx context.Context, from progress) (err error) {
	for err == nil {
		if w.cfg.Lanes > 1 && from.failure.Position.IsZero() {
			if from, err = w.sideBySide(ctx, from.at); err != nil {
				return err
			}
		}
		from, err = w.inOrder(ctx, from)
	}
	return err
}

// inOrder applies event after event. With lanes it returns as soon as they can
// go on.
func (w *worker[Tx]) inOrder(ctx context.Context, from progress) (progress, error) {
	if err := w.tend(ctx, from.at); err != nil || w.cfg.Lanes > 1 && from.failure.Position.IsZero() {
		return from, err
	}
	err := w.read(ctx, from.at, func(page eventstore.Page) (at Checkpoint, err error) {
		if from, err = w.apply(ctx, from, page); err != nil {
			return from.at, err
		}
		if w.cfg.Lanes > 1 && from.failure.Position.IsZero() {
			return from.at, errStopped
		}
		if w.parked && time.Since(w.tended) < w.cfg.BatchTime {
			return from.at, nil // there is no hurry, and much to read
		}
		return from.at, w.tend(ctx, from.at)
	})
	if errors.Is(err, errStopped) {
		err = nil
	}
	return from, err
}

// read hands on page after page, and waits where the log ends. It returns the
// error of take, and nil when a parked event is due.
func (w *worker[Tx]) read(ctx context.Context, at Checkpoint, take func(eventstore.Page) (Checkpoint, error)) error {
	vain := 0 // looks in a row that found nothing although a hint came
	for {
		page, err := w.page(ctx, at)
		if err != nil {
			return err
		}
		if page.UpTo.After(at.Position) {
			vain = 0
			if at, err = take(page); err != nil {
				return err
			}
			continue
		}
		if at.Position.After(page.UpTo) { // the page lags, or the log was replaced under us
			if err := w.trust(ctx, at); err != nil {
				return err
			}
		}
		hint, err := w.pause(ctx, at)
		if err != nil {
			return err
		}
		if !hint {
			if w.parked {
				return nil
			}
			vain = 0
			continue
		}
		if vain++; vain > 1 { // a page that lags behind its hints must not make us spin
			if err := sleep(ctx, min(time.Millisecond<<min(vain, 10), w.cfg.Failures.FirstDelay)); err != nil {
				return err
			}
		}
	}
}

// page reads what comes next in the log.
func (w *worker[Tx]) page(ctx context.Context, at Checkpoint) (eventstore.Page, error) {
	for {
		page, err := w.store.Page(ctx, w.query, at.Position, w.cfg.BatchSize)
		if err == nil {
			err = inOrder(page, at)
		}
		if err == nil {
			w.delays.reset()
			return page, nil
		}
		if err := w.trouble(ctx, "the log cannot be read", err); err != nil {
			return eventstore.Page{}, err
		}
	}
}

// inOrder holds a store to its promise: events that are applied out of order,
// or a checkpoint that passes events of the page, cannot be mended later.
func inOrder(page eventstore.Page, at Checkpoint) error {
	last := at.Position
	for _, r := range page.Records {
		if !r.Position.After(last) || r.Position.After(page.UpTo) {
			return fmt.Errorf("the page after %s, complete up to %s, has event %s at %s behind %s: the store breaks its promise of order",
				at.Position, page.UpTo, r.ID, r.Position, last)
		}
		last = r.Position
	}
	return nil
}

// pause waits for a hint that the log goes on, or that there is something to do
// about a parked event. A false one costs a look, a lost one costs the time of
// [Config.Poll].
func (w *worker[Tx]) pause(ctx context.Context, at Checkpoint) (hint bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, w.cfg.Poll)
	defer cancel()
	if w.parked {
		var watch sync.WaitGroup
		watch.Go(func() { w.awaitWord(waiting); cancel() })
		defer watch.Wait()
		defer cancel()
	}
	err = w.store.Wait(waiting, at.Position)
	if err != nil && waiting.Err() != nil {
		return false, ctx.Err()
	}
	if err := w.trouble(ctx, "the store gives no hints", err); err != nil {
		return false, err
	}
	return err == nil, nil
}

// checkpointAt is the checkpoint after a record.
func (p *Projector[Tx]) checkpointAt(r event.Record) Checkpoint {
	return Checkpoint{Position: r.Position, EventID: r.ID, Log: p.log.Log}
}
