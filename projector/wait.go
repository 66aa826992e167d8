package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// WaitFor returns nil once everything up to a position, as [command.Outcome]
// tells it, is in the read model; with keys, everything that has one of them. It
// reads the target, so it works on every replica, whether this projector is
// active, stands by or is not running. The zero position is always applied.
//
// It ends with ctx, and where that has no deadline after [Config.WaitLimit]:
// then the error is [ErrNotYet] and says what is known. A projector that is
// halted at the position or before it is [ErrHalted] at once. A position that is
// reached, with a parked event at it or before it (with one of the keys, if
// there are any) that waits for somebody to act, is [ErrParked] at once.
//
// [command.Outcome]: https://pkg.go.dev/github.com/cccgo/ccc/command#Outcome
func (p *Projector[Tx]) WaitFor(ctx context.Context, at consistency.Position, keys ...string) error {
	if p.misuse != nil {
		return p.misuse
	}
	if at.IsZero() {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		limited, cancel := context.WithTimeout(ctx, p.cfg.WaitLimit)
		defer cancel()
		ctx = limited
	}
	var state State
	var trouble error // of the target, since the state was read last
	often := p.cfg    // somebody waits: a long pause would outlast the trouble
	often.Failures.MaxDelay = min(often.Failures.MaxDelay, time.Second)
	delays := newDelays(often)
	for {
		now, err := p.target.State(ctx, p.name)
		var done bool
		if err == nil {
			state, trouble = now, nil
			done, err = p.applied(ctx, state, at, keys)
		}
		if errors.Is(err, ErrHalted) || errors.Is(err, ErrParked) || errors.Is(err, ErrForeignLog) {
			return err
		}
		if err == nil {
			if done {
				return nil
			}
			err = p.target.Wait(ctx, p.name, state)
		}
		switch {
		case ctx.Err() != nil:
			return p.notYet(ctx, at, state, trouble)
		case useless(err):
			return fmt.Errorf("projector %s: wait for %s: %w", p.name, at, err)
		case err == nil:
			delays.reset()
		default:
			trouble = err
			_ = sleep(ctx, delays.next()) // the next look says whether ctx has ended
		}
	}
}

// applied says whether all is in the model, or why it will not get there.
func (p *Projector[Tx]) applied(ctx context.Context, s State, at consistency.Position, keys []string) (bool, error) {
	if log := p.log.Log; log != s.Checkpoint.Log && log != uuid.Nil && s.Checkpoint.Log != uuid.Nil {
		return false, &ForeignLogError{Name: p.name, Checkpoint: s.Checkpoint, Log: log}
	}
	if at.After(s.Checkpoint.Position) {
		if f := s.Failure; f.Halted && f.Discard == "" && f.Position.After(s.Checkpoint.Position) && !f.Position.After(at) {
			return false, &HaltedError{p.name, f}
		}
		return false, nil
	}
	if s.Parked == 0 {
		return true, nil
	}
	if len(keys) == 0 {
		keys = []string{""}
	}
	for _, key := range keys {
		if key != "" {
			key = keyText(key)
		}
		first, err := p.target.Parked(ctx, p.name, ParkedQuery{Key: key, UpTo: at, Limit: 1})
		if err != nil {
			return false, err
		}
		if len(first) == 0 {
			continue
		}
		stuck, err := p.stuck(ctx, first[0])
		if err == nil && stuck {
			err = &ParkedError{Name: p.name, At: at, First: first[0]}
		}
		return false, err // while it is on its way, the others are too
	}
	return true, nil
}

// stuck says whether a parked event waits until somebody acts, itself or what
// it waits behind.
func (p *Projector[Tx]) stuck(ctx context.Context, e Parked) (bool, error) {
	seen := map[consistency.Position]bool{}
	for before := []Parked{e}; len(before) > 0; before = before[1:] {
		e := before[0]
		switch {
		case seen[e.Record.Position] || !e.Due.IsZero():
			continue
		case e.Failed:
			return true, nil
		}
		seen[e.Record.Position] = true
		for _, key := range e.Keys {
			first, err := p.target.Parked(ctx, p.name, ParkedQuery{Key: key, Limit: 1})
			if err != nil {
				return false, err
			}
			before = append(before, first...)
		}
	}
	return false, nil
}

func (p *Projector[Tx]) notYet(ctx context.Context, at consistency.Position, s State, trouble error) error {
	why := "a worker is at it"
	switch {
	case trouble != nil:
		why = trouble.Error()
	case s.Failure.Position.After(s.Checkpoint.Position):
		why = fmt.Sprintf("event %s of type %q at %s has failed %d times: %s", s.Failure.EventID, s.Failure.Type, s.Failure.Position, s.Failure.Attempts, s.Failure.Error)
	case !s.Held:
		why = "no worker of this name is active: call Run"
	}
	return fmt.Errorf("projector %s: %w: waiting for %s, the checkpoint is %s; %s: %w", p.name, ErrNotYet, at, s.Checkpoint.Position, why, context.Cause(ctx))
}
