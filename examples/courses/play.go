package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/google/uuid"
)

// answer is what is printed of a line.
type answer struct {
	text     string
	replayed bool
	at       consistency.Position
	filled   bool // a course
}

// asking makes a reply of a command's outcome, which is the same for a repeat.
func asking[C command.Command[S], S any](c C, reply func(S, []event.Event) string) func(context.Context, *command.Runner, uuid.UUID) (answer, error) {
	return func(ctx context.Context, runner *command.Runner, id uuid.UUID) (a answer, err error) {
		out, err := command.Run(ctx, runner, id, c)
		a.at, a.replayed = out.Position, out.Replayed
		if why, ok := errors.AsType[Refused](err); ok {
			a.text = "refused: " + string(why.Code)
			return a, nil
		}
		facts, decodeErr := out.Decoded()
		if err = errors.Join(err, decodeErr); err == nil {
			a.text = reply(out.State, facts)
			a.filled = slices.ContainsFunc(facts, func(e event.Event) bool { _, filled := e.(CourseFilled); return filled })
		}
		return a, err
	}
}

func offered(c Course, _ []event.Event) string { return fmt.Sprintf("offered with %d seats", c.Seats) }

func enrolled(now Enrolment, facts []event.Event) string {
	if e, ok := facts[0].(StudentQueued); ok {
		return fmt.Sprintf("number %d on the waiting list", e.Place)
	}
	return fmt.Sprintf("enrolled, %d of %d seats left", now.Course.Free(), now.Course.Seats)
}

// play runs the script and shows the free seats. After a line that filled a
// course it waits for what follows from that, so that the next line finds the
// list open.
func (s *school) play(ctx context.Context, script []line, out io.Writer) error {
	for _, l := range script {
		id, err := command.KeyID("courses", l.key)
		if err != nil {
			return err
		}
		a, err := l.ask(ctx, s.runner, id)
		if err != nil {
			return fmt.Errorf("%s %s: %w", l.key, l.text, err)
		}
		if a.filled {
			if err := s.lists.WaitFor(ctx, a.at); err != nil {
				return err
			}
		}
		again := ""
		if a.replayed {
			again = " (as before)"
		}
		if _, err := fmt.Fprintf(out, "%-4s %-16s %s%s\n", l.key, l.text, a.text, again); err != nil {
			return err
		}
	}
	return s.show(ctx, out)
}

// show waits until the read model shows all that is in the log now.
func (s *school) show(ctx context.Context, out io.Writer) error {
	lag, err := s.seats.Lag(ctx)
	if err != nil {
		return err
	}
	if err := s.seats.WaitFor(ctx, lag.Head); err != nil {
		return err
	}
	all, err := readSeats(ctx, s.model)
	for _, row := range all {
		if _, err := fmt.Fprintf(out, "%s: %d of %d seats free, %d waiting\n", row.Course, row.Free, row.Seats, row.Waiting); err != nil {
			return err
		}
	}
	return err
}
