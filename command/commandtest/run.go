package commandtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
)

// run is one run of a command on the facts, in a log of its own.
type run[S any] struct {
	inner command.Command[S]
	mode  mode

	decided bool
	state   S // that Decide was given, as it is now
	said    []said
	outcome command.Outcome[S]
	err     error
}

// mode is what a run does with the state it is given.
type mode int

const (
	looks     mode = iota // at the state
	rehearses             // decides, twice, and saves nothing
	acts                  // decides
)

// said is what Decide returned.
type said struct {
	events []event.Event
	err    error
}

func (s said) String() string { return describe(s.events, s.err) }

func same(a, b said) bool {
	if (a.err == nil) != (b.err == nil) || a.err != nil && a.err.Error() != b.err.Error() {
		return false
	}
	return len(a.events) == len(b.events) && (len(a.events) == 0 || equal(a.events, b.events))
}

// do writes the facts and runs the command. The error is about the facts.
func (r *run[S]) do(given []event.Event) error {
	store := memstore.New()
	defer store.Close()
	ctx := context.Background()
	runner := command.NewRunner(store, command.Config{CacheBytes: -1, MaxAttempts: 1})
	for i, e := range given {
		if _, err := command.Run(ctx, runner, command.NewID(), fact[S]{r.inner, hidden[event.Event]{e}}); err != nil {
			return fmt.Errorf("event %d, %T: %w", i+1, e, withStack(err))
		}
	}
	r.outcome, r.err = command.Run(ctx, runner, command.NewID(), probe[S]{r.inner, hidden[*run[S]]{r}})
	r.err = withStack(r.err)
	return nil
}

// withStack shows where a panic came from.
func withStack(err error) error {
	if p, ok := errors.AsType[*command.PanicError](err); ok {
		return fmt.Errorf("%w\n%s", err, p.Stack)
	}
	return err
}

func (r *run[S]) decide(state S) ([]event.Event, error) {
	r.decided, r.state = true, state
	switch r.mode {
	case rehearses:
		r.said = append(r.said, r.ask(state), r.ask(state))
	case acts:
		answer := r.ask(state)
		r.said = append(r.said, answer)
		return answer.events, answer.err
	}
	return nil, nil
}

func (r *run[S]) ask(state S) (s said) {
	s.events, s.err = r.inner.Decide(state)
	return s
}

// fact is a command that writes one given event, with the codec of the context
// of the command that is tested.
type fact[S any] struct {
	Inner command.Command[S]
	Event hidden[event.Event]
}

func (fact[S]) CommandName() string               { return "given" }
func (f fact[S]) Context() command.View[S]        { return f.Inner.Context() }
func (f fact[S]) Decide(S) ([]event.Event, error) { return []event.Event{f.Event.value}, nil }

// probe is the command that is tested, watched.
type probe[S any] struct {
	Inner command.Command[S]
	Run   hidden[*run[S]]
}

func (p probe[S]) CommandName() string                   { return p.Inner.CommandName() }
func (p probe[S]) Context() command.View[S]              { return p.Inner.Context() }
func (p probe[S]) Decide(state S) ([]event.Event, error) { return p.Run.value.decide(state) }

// hidden keeps a value out of the fingerprint.
type hidden[T any] struct{ value T }

func (hidden[T]) MarshalText() ([]byte, error) { return []byte("hidden"), nil }
