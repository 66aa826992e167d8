package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
)

// Parked lists parked events, in the order of the log, on any replica.
func (p *Projector[Tx]) Parked(ctx context.Context, q ParkedQuery) ([]Parked, error) {
	if p.misuse != nil {
		return nil, p.misuse
	}
	if q.Key != "" {
		q.Key = keyText(q.Key)
	}
	parked, err := p.target.Parked(ctx, p.name, q)
	if err != nil {
		return nil, fmt.Errorf("projector %s: parked events: %w", p.name, err)
	}
	return parked, nil
}

// Retry asks for another try of the parked events that could not be applied:
// those with one of the keys, or all if none is given. Those that wait behind
// one follow in order as soon as it is applied. It says how many it asked for;
// the worker, on whatever replica, tries them as soon as it can, and WaitFor or
// Parked show what came of it.
func (p *Projector[Tx]) Retry(ctx context.Context, keys ...string) (asked int, err error) {
	if len(keys) == 0 {
		keys = []string{""}
	}
	done := map[consistency.Position]bool{}
	for _, key := range keys {
		q := ParkedQuery{Key: key}
		for {
			page, err := p.Parked(ctx, q)
			if err != nil {
				return asked, err
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				q.After = e.Record.Position
				if !e.Failed || e.Discard != "" || done[q.After] {
					continue
				}
				done[q.After] = true
				switch err := p.target.Ask(ctx, p.name, q.After, ""); {
				case errors.Is(err, ErrNotParked): // settled meanwhile
				case err != nil:
					return asked, fmt.Errorf("projector %s: retry the parked event at %s: %w", p.name, q.After, err)
				default:
					asked++
				}
			}
		}
	}
	return asked, nil
}

// Discard asks that the parked event at a position is never applied, and keeps
// the reason, which must not be empty, together with the event. Those that
// wait behind it follow. It can also be the event that the projector is halted
// at ([HaltedError] has its position): then that is passed over, counted in
// [Lag.Skipped], and kept among the settled ones. [ErrNotParked] if neither is
// there. Like Retry it is a word to the worker, and durable when it returns; an
// event whose try succeeds just then is applied all the same.
func (p *Projector[Tx]) Discard(ctx context.Context, at consistency.Position, reason string) error {
	switch {
	case p.misuse != nil:
		return p.misuse
	case reason == "":
		return fmt.Errorf("projector %s: discard the parked event at %s: %w: give the reason, it is kept", p.name, at, ErrMisuse)
	case at.IsZero():
		return fmt.Errorf("projector %s: discard: %w: the position is zero: give that of a parked event", p.name, ErrMisuse)
	}
	if err := p.target.Ask(ctx, p.name, at, text(errors.New(reason))); err != nil {
		return fmt.Errorf("projector %s: discard the parked event at %s: %w", p.name, at, err)
	}
	return nil
}

// Resume asks a projector that is halted to try the event at once, on whatever
// replica it is active. If nothing stands in the way it does nothing.
func (p *Projector[Tx]) Resume(ctx context.Context) error {
	if p.misuse != nil {
		return p.misuse
	}
	if err := p.target.Ask(ctx, p.name, consistency.Position{}, ""); err != nil {
		return fmt.Errorf("projector %s: resume: %w", p.name, err)
	}
	return nil
}
