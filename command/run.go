package command

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// Run runs a command to its one answer. The ID makes it the same command on
// every repeat, whoever runs it and whenever: it commits its events at most
// once, and a repeat gets the first answer, rebuilt from the log. After
// [Unknown], and after a crash, repeat with the same ID.
//
// The error is nil for Committed and Nothing, and an [*Error] otherwise; the
// outcome's Status is always set. Decide may be called several times.
func Run[C Command[S], S any](ctx context.Context, r *Runner, id uuid.UUID, c C) (Outcome[S], error) {
	k := &call[S]{cmd: c, session: session{runner: r, id: id}}
	out, err := k.run(ctx)
	out.Attempts, out.codecs = k.attempts, k.reading.codecs
	if err != nil {
		err = &Error{Command: k.name, ID: id, Status: out.Status, Attempts: k.attempts, Err: err}
	}
	return out, err
}

// call is one call of Run.
type call[S any] struct {
	session
	cmd  Command[S]
	view View[S]
	next reading  // as it is once the decision is saved
	room struct { // for the usual one or two contexts
		slots, after [2]slot
		wanted       [2]*leaf
		codecs       [1]*event.Codec
	}
}

// run is the protocol of docs/concepts/protocol.md, step by step.
func (c *call[S]) run(ctx context.Context) (Outcome[S], error) {
	if err := c.prepare(ctx); err != nil {
		return c.end(Failed, err)
	}
	c.pauses = pauses{first: c.runner.config.FirstDelay, most: c.runner.config.MaxDelay}
	until := time.Now().Add(c.runner.config.MaxElapsed)
	for {
		out, err, done := c.try(ctx, until)
		if done {
			return out, err
		}
		if !c.atOnce && (c.attempts >= c.runner.config.MaxAttempts || !c.pauses.wait(ctx, until)) {
			break
		}
		c.atOnce = false
	}
	return c.lastLook(ctx, c.trouble, chain(context.Cause(ctx), c.reason))
}

// try is one attempt. Not done: go on with the next, after a pause.
func (c *call[S]) try(ctx context.Context, until time.Time) (out Outcome[S], err error, done bool) {
	caller := ctx
	defer func() {
		if p := recover(); p != nil {
			if c.sending != nil {
				c.open = append(c.open, c.sending)
			}
			out, err = c.fatal(caller, &PanicError{p, debug.Stack()})
			done = true
		}
	}()
	c.attempts++
	if err := c.rewind(); err != nil {
		return c.stop(caller, err)
	}
	leave, err := c.runner.queue.enter(ctx, until, c.contexts())
	defer leave()
	if err != nil {
		return c.again(ErrContended, err)
	}
	ctx, cancel := context.WithDeadline(ctx, earlier(until, time.Now().Add(c.runner.config.AttemptTimeout)))
	defer cancel()

	// Only a first try may decide on remembered state, and nothing but a save
	// may come of it: the append checks it, a refusal nobody would.
	if state, ok := c.remembered(); ok {
		if p, err := c.plan(state); err == nil && p.saves() {
			return c.save(ctx, caller, p, true)
		}
		if err := c.rewind(); err != nil {
			return c.stop(caller, err)
		}
	}
	state, own, err := c.read(ctx)
	if err != nil {
		return c.stop(caller, err)
	}
	if len(own) > 0 { // an earlier attempt or call has landed
		c.coolAll() // the conflict was with ourselves
		return c.replay(ctx, caller, own)
	}
	c.forgetMoved()
	p, err := c.plan(state)
	if err != nil {
		return c.stop(caller, err)
	}
	if !p.saves() { // refused or nothing, and not to be recorded
		if len(c.open) > 0 { // what is on its way may yet land
			// Its refusal is no answer, so it is not in the error's chain.
			return c.again(ErrUnavailable, fmt.Errorf("%s while an attempt is open: %v", p.status, p.refusal))
		}
		out, err := c.answer(p.decision, state, false)
		return out, err, true
	}
	return c.save(ctx, caller, p, false)
}

// plan is a decision, and what the contexts are like once it is saved.
type plan[S any] struct {
	decision
	after []slot
	state S
}

func (p plan[S]) saves() bool { return len(p.records) > 0 }

// plan decides, and folds the events before they are saved: what cannot be
// encoded, decoded or folded is not saved.
func (c *call[S]) plan(state S) (p plan[S], err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	if p.decision, err = c.decide(state); err == nil && p.saves() {
		p.after, p.state, err = c.foldOwn(p.records)
	}
	return p, err
}

// save appends, and takes the store's word for what became of it.
func (c *call[S]) save(ctx, caller context.Context, p plan[S], remembered bool) (Outcome[S], error, bool) {
	seen := c.reading.seen()
	err := c.append(ctx, p.records, seen)
	switch eventstore.KindOf(err) {
	case "":
		c.rememberSaved(p.after, p.records)
		out, err := c.answer(p.decision, p.state, false)
		return out, err, true
	case eventstore.Conflict:
		c.open = append(c.open, seen) // the transport may have doubled it: it may be our own
		c.collided = seen
		c.atOnce = remembered // it was old: a read is what was saved before
		c.heat(seen)
		return c.again(ErrContended, err)
	case eventstore.NotApplied:
		return c.again(ErrUnavailable, err)
	case eventstore.Permanent:
		if remembered && errors.Is(err, eventstore.ErrInvalid) {
			return c.again(ErrUnavailable, err) // nothing but a save may come of it
		}
		c.sent = true
		out, err := c.fatal(caller, err)
		return out, err, true
	default: // ambiguous
		c.open = append(c.open, seen)
		return c.again(ErrUnavailable, err)
	}
}

// again: this attempt did not settle it.
func (c *call[S]) again(class, err error) (Outcome[S], error, bool) {
	if c.reason == nil || !errors.Is(err, context.DeadlineExceeded) { // which tells less than what was before it
		c.trouble, c.reason = class, err
	}
	return Outcome[S]{}, nil, false
}

// stop tells errors that another attempt may mend from those it cannot.
func (c *call[S]) stop(caller context.Context, err error) (Outcome[S], error, bool) {
	if errors.Is(err, errRetry) {
		return c.again(ErrUnavailable, err)
	}
	out, err := c.fatal(caller, err)
	return out, err, true
}

// fatal: no other attempt. What is on its way is looked for once more.
func (c *call[S]) fatal(ctx context.Context, err error) (Outcome[S], error) {
	return c.lastLook(ctx, nil, err)
}

// lastLook finds out what became of the attempts that are open, with a time of
// its own. Where none is, there is nothing to find out: the answer is class
// (ErrContended, ErrUnavailable, or nil for failed) for the reason given.
func (c *call[S]) lastLook(ctx context.Context, class, reason error) (out Outcome[S], err error) {
	if len(c.open) == 0 && !c.sent {
		return c.unapplied(class, reason)
	}
	defer func() {
		if p := recover(); p != nil {
			out, err = c.unknown(reason, &PanicError{p, debug.Stack()})
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.runner.config.LastLook)
	defer cancel()
	own, lookErr := c.look(ctx)
	if len(own) > 0 {
		if out, err, done := c.replay(ctx, ctx, own); done {
			return out, err
		}
		return c.unknown(reason, c.reason) // it is in the log, so nothing else would be true
	}
	if len(c.open) > 0 {
		return c.unknown(reason, lookErr)
	}
	return c.unapplied(class, reason)
}

// unapplied: no attempt of this call was applied or will be.
func (c *call[S]) unapplied(class, reason error) (Outcome[S], error) {
	status := Failed
	switch class {
	case ErrContended:
		status = Contended
	case ErrUnavailable:
		status = Unavailable
	}
	return c.end(status, chain(class, reason))
}

func (c *call[S]) unknown(reason, more error) (Outcome[S], error) {
	return c.end(Unknown, chain(ErrUnknown, chain(reason, more)))
}

// chain wraps two errors of which either may be nil.
func chain(class, reason error) error {
	switch {
	case class == nil:
		return reason
	case reason == nil:
		return class
	}
	return fmt.Errorf("%w: %w", class, reason)
}

func (c *call[S]) end(status Status, err error) (Outcome[S], error) {
	return Outcome[S]{Status: status}, err
}

// prepare is what a call does once, before its first attempt.
func (c *call[S]) prepare(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	if c.runner == nil || c.runner.store == nil {
		return fmt.Errorf("%w: a nil Runner, or one with a nil store: use NewRunner", ErrMisuse)
	}
	if c.id == uuid.Nil {
		return ErrNoID
	}
	c.name = c.cmd.CommandName()
	if c.name == "" {
		return fmt.Errorf("%w: %T has an empty CommandName", ErrMisuse, c.cmd)
	}
	fingerprint, volatile, err := event.Fingerprint(c.name, c.cmd)
	if err != nil {
		return err
	}
	given := givenIn(ctx)
	c.record = volatile || given.record || c.runner.config.RecordRefusals
	c.idText = c.id.String()
	c.metadata, err = given.metadata(c.name, fingerprint, c.idText)
	c.guard = consistency.Where(consistency.CommandKey, c.idText)
	c.reading = reading{slots: c.room.slots[:0], wanted: c.room.wanted[:0], codecs: c.room.codecs[:0]}
	c.view = c.cmd.Context()
	return err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
