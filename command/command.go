package command

import (
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// Command is one kind of decision, as a value: its fields are the payload, its
// three methods the rule. S is the state that the decision depends on.
//
// All fields are exported: they make the command's fingerprint, by which a
// repeat under the same ID is told from another payload (see
// [event.Fingerprint]). A field that may differ between repeats, such as a
// time, is tagged `ccc:"-"`; such a command always records its refusals.
type Command[S any] interface {
	// CommandName is the same for every value of the type. It is stored and
	// part of the fingerprint.
	CommandName() string
	// Context says what the decision depends on. It may look at the payload
	// and at nothing else.
	Context() View[S]
	// Decide returns the events that follow, no events where nothing is to be
	// done, or an error that refuses the command; never events and an error.
	// It is pure: the same state gives the same decision, on every replica, and
	// the state is not changed.
	//
	// A refusal that is an event type itself, one that the codec of the
	// command's context knows, is recorded under the command's ID: a repeat
	// gets the same refusal for ever. One that is wrapped is recorded, and
	// answered, without what it is wrapped in.
	Decide(S) ([]event.Event, error)
}

// Model is what events mean: a codec and the fold of its events into a state.
// It is made once and shared: folded state is cached under it.
type Model[S any] struct {
	events *event.Codec
	evolve func(S, event.Event) S
	keep   keeping[S]
}

// NewModel makes a model of the codec's events. evolve gives the state after
// one more event; it is pure but for this: it may change in place what the
// state it was given refers to.
//
// The runner keeps states between commands. Of one that holds maps, slices or
// pointers it does so only if S has a method Clone() S that copies all of it.
// A state weighs what its method Weight() int says, in bytes, or else the
// memory that it is seen to take.
//
// NewModel panics without a codec or without evolve: that program is wrong.
func NewModel[S any](events *event.Codec, evolve func(S, event.Event) S) *Model[S] {
	if events == nil || evolve == nil {
		panic("command: NewModel needs a codec and a function")
	}
	return &Model[S]{events: events, evolve: evolve, keep: keepingOf[S]()}
}

// History is the fold of all events that q meets, from the first on. A query
// that the model's codec cannot meet (a mistyped key, an unknown type) fails
// the command with [event.ErrQueryKey] or the like.
func (m *Model[S]) History(q consistency.Query) View[S] { return m.view(q, false) }

// Latest is the fold of the latest event alone that q meets, from the zero
// state: for events that carry the state they lead to.
func (m *Model[S]) Latest(q consistency.Query) View[S] { return m.view(q, true) }

// None depends on nothing: the zero state, for a command that only its own ID
// guards.
func (m *Model[S]) None() View[S] {
	return View[S]{func(r *reading) (S, bool) {
		var zero S
		r.know(m.events)
		return zero, true
	}}
}

func (m *Model[S]) view(q consistency.Query, latest bool) View[S] {
	l := &leaf{model: m, latest: latest}
	l.query, l.err = m.events.Query(q)
	if l.err == nil {
		l.err = checkContext(l.query, latest)
	}
	l.text = l.query.String()
	return View[S]{func(r *reading) (S, bool) {
		state, ok := r.state(l)
		s, _ := state.(S)
		return s, ok
	}}
}

// checkContext refuses contexts that markers of recorded refusals could hide
// in, or hide: they are nobody's facts.
func checkContext(q consistency.Query, latest bool) error {
	for _, c := range q.Criteria() {
		if latest && len(c.Types)+len(c.Tags) == 0 {
			return fmt.Errorf("%w: the latest of all events is no context: name a type or a key", ErrMisuse)
		}
		for _, t := range c.Tags {
			if t.Key == consistency.CommandKey {
				return fmt.Errorf("%w: %s is no key for contexts: the runner observes it by itself", ErrMisuse, t.Key)
			}
		}
	}
	return nil
}

func (m *Model[S]) codec() *event.Codec { return m.events }

func (m *Model[S]) fold(state any, records []event.Record, latest bool) (any, error) {
	if len(records) == 0 {
		return state, nil
	}
	s, _ := state.(S)
	for _, r := range records {
		if r.Type == event.MarkerType {
			continue // nobody's fact, whatever its refusal is
		}
		e, err := m.events.Decode(r)
		if err != nil {
			return nil, err
		}
		if latest {
			var zero S
			s = zero
		}
		s = m.evolve(s, e)
	}
	return s, nil
}

func (m *Model[S]) zero() any {
	var s S
	return s
}

func (m *Model[S]) copies() bool { return m.keep.possible }

func (m *Model[S]) copy(state any) any {
	if m.keep.clone == nil {
		return state
	}
	s, _ := state.(S)
	return m.keep.clone(s)
}

func (m *Model[S]) weigh(state any) int { return m.keep.weigh(state) }

// ErrMisuse says that a command or its runner is used in a way that cannot be
// right; the message says how. What is wrong with event types, queries and
// fields has sentinels of package event.
var ErrMisuse = errors.New("misuse")
