package reaction

import (
	"context"
	"fmt"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// Run runs c because of the event d, as the reaction of that name: once, however
// often, wherever and by whomever d is delivered. It returns nil after the last
// word: committed, nothing to do, or refused. A handler returns its error as it
// is, or wrapped; see the package for what it means.
//
// For a delivery with Replay set it does nothing.
func Run[C command.Command[S], S any](ctx context.Context, r *command.Runner, d projector.Delivery, name string, c C) error {
	out, err := Ask(ctx, r, d, name, c)
	if out.Status == command.Refused {
		return nil
	}
	return err
}

// Ask is Run for a handler that goes on with the answer, which is the same at
// each delivery. The outcome is that of [command.Run], and a refusal is in the
// error. For a delivery with Replay set, both are zero.
func Ask[C command.Command[S], S any](ctx context.Context, r *command.Runner, d projector.Delivery, name string, c C) (command.Outcome[S], error) {
	var out command.Outcome[S]
	if d.Replay {
		return out, nil
	}
	if err := check(ctx, d, name); err != nil {
		return out, err
	}
	ctx = command.WithRecordedRefusals(command.WithCause(ctx, d.Record))
	out, err := command.Run(ctx, r, ID(d.ID, name), c)
	if err == nil {
		return out, nil
	}
	switch out.Status {
	case command.Contended, command.Unavailable, command.Unknown:
		err = fmt.Errorf("%w: %w", projector.ErrHold, err)
	case command.Reused:
		err = fmt.Errorf("the event has led to another command under this name: either this one was done before with another payload, "+
			"since its code was changed or looks at more than the event, and the event may be passed over; "+
			"or two commands have one name, then give each its own: %w", err)
	case command.Committed, command.Nothing, command.Refused, command.Failed:
	}
	return out, fmt.Errorf("reaction %q to event %s of type %q at %s: %w", name, d.ID, d.Type, d.Position, err)
}

func check(ctx context.Context, d projector.Delivery, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("reaction to event %s of type %q: %w: it has no name", d.ID, d.Type, command.ErrMisuse)
	case d.ID == uuid.Nil:
		return fmt.Errorf("reaction %q: %w: the delivery has no event_id: pass it on as the projector gave it", name, command.ErrMisuse)
	}
	if most := maxDepth(ctx); d.Metadata.Depth >= most {
		return &LoopError{Reaction: name, EventID: d.ID, Type: d.Type, Position: d.Position, Depth: d.Metadata.Depth, MaxDepth: most}
	}
	return nil
}
