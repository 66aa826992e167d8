package commandtest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/event"
)

// Facts are the events that a test takes as given.
type Facts struct {
	t      testing.TB
	events []event.Event
}

// Given starts a test: these events, in this order, are all that is in the log.
func Given(t testing.TB, events ...event.Event) Facts {
	t.Helper()
	return Facts{t, events}
}

// Result is what a command leads to on the given facts.
type Result[S any] struct {
	t       testing.TB
	name    string
	events  []event.Event
	outcome command.Outcome[S]
	err     error
}

// When decides c on the facts, as a [command.Runner] would: events pass through
// the codec, queries select them, and what is decided is folded in. It fails
// the test where Evolve or Decide is not pure: another state from the same
// events, another decision on the same state, a changed state, or an event that
// is another one after the codec.
func When[C command.Command[S], S any](given Facts, c C) Result[S] {
	given.t.Helper()
	res := Result[S]{t: given.t, name: c.CommandName()}
	// Runs that share nothing but the facts.
	runs := map[mode][2]*run[S]{}
	for _, m := range []mode{looks, rehearses, acts} {
		pair := [2]*run[S]{{inner: c, mode: m}, {inner: c, mode: m}}
		for _, r := range pair {
			if err := r.do(given.events); err != nil {
				given.t.Errorf("commandtest: %s: the given events: %v", res.name, err)
				return res
			}
		}
		runs[m] = pair
	}
	res.outcome, res.err = runs[acts][0].outcome, runs[acts][0].err
	if runs[acts][0].decided { // else the context failed, and err says how
		res.check(runs)
	}
	return res
}

func (r *Result[S]) check(runs map[mode][2]*run[S]) {
	r.t.Helper()
	impure := func(what string, a, b any) {
		r.t.Helper()
		r.t.Errorf("commandtest: %s: %s:\n\t%+v\nand\t%+v", r.name, what, a, b)
	}
	look, dry, real := runs[looks], runs[rehearses], runs[acts]
	said := real[0].said[0]
	if !equal(look[0].state, look[1].state) {
		impure("Evolve is not pure, the same events gave two states", look[0].state, look[1].state)
		return
	}
	if !equal(look[0].state, dry[0].state) {
		impure("Decide changes the state that it is given", look[0].state, dry[0].state)
		return
	}
	for _, other := range append(dry[0].said, real[1].said...) {
		if !same(said, other) {
			impure("Decide is not pure, on the same state it said", said, other)
			return
		}
	}
	if !equal(real[0].outcome.State, real[1].outcome.State) {
		impure("Evolve is not pure, the same events gave two states", real[0].outcome.State, real[1].outcome.State)
		return
	}
	if r.err != nil {
		return
	}
	decoded, err := r.outcome.Decoded()
	if err != nil {
		r.t.Errorf("commandtest: %s: its events cannot be read back: %v", r.name, err)
		return
	}
	r.events = decoded
	if len(decoded)+len(said.events) > 0 && !equal(decoded, said.events) {
		impure("events are other ones after the codec, decided and read back", list(said.events), list(decoded))
	}
}

// Then says that the command is committed with exactly these events.
func (r Result[S]) Then(events ...event.Event) Result[S] {
	r.t.Helper()
	switch {
	case r.err != nil:
		r.t.Errorf("commandtest: %s: got the error %v, want the events\n\t%s", r.name, r.err, list(events))
	case len(events) != len(r.events) || len(events) > 0 && !equal(events, r.events):
		r.t.Errorf("commandtest: %s: got the events\n\t%s\nwant\n\t%s", r.name, list(r.events), list(events))
	}
	return r
}

// ThenNothing says that there was nothing to do.
func (r Result[S]) ThenNothing() Result[S] {
	r.t.Helper()
	if r.outcome.Status != command.Nothing {
		r.t.Errorf("commandtest: %s: got %s (%v), want nothing to do", r.name, r.outcome.Status, describe(r.events, r.err))
	}
	return r
}

// ThenRefused says that Decide refused with this error, as errors.Is sees it;
// a refusal that is an event also by its value.
func (r Result[S]) ThenRefused(refusal error) Result[S] {
	r.t.Helper()
	if r.outcome.Status != command.Refused || !refusedWith(r.err, refusal) {
		r.t.Errorf("commandtest: %s: got %s (%v), want the refusal %v", r.name, r.outcome.Status, describe(r.events, r.err), refusal)
	}
	return r
}

// ThenState says that this is the state right after the command.
func (r Result[S]) ThenState(state S) Result[S] {
	r.t.Helper()
	if !equal(r.outcome.State, state) {
		r.t.Errorf("commandtest: %s: got the state\n\t%+v\nwant\n\t%+v", r.name, r.outcome.State, state)
	}
	return r
}

func refusedWith(err, want error) bool {
	if errors.Is(err, want) {
		return true
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if equal(err, want) {
			return true
		}
	}
	return false
}

func describe(events []event.Event, err error) string {
	if err != nil {
		return err.Error()
	}
	return list(events)
}

func list(events []event.Event) string {
	if len(events) == 0 {
		return "none"
	}
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = fmt.Sprintf("%s %+v", e.EventType(), e)
	}
	return strings.Join(lines, "\n\t")
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }
