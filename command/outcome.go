package command

import (
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/google/uuid"
)

// Status is how a call ended: always as exactly one of these. It is set beside
// an error too.
type Status uint8

const (
	// Committed: the events are in the log, durable.
	Committed Status = iota + 1
	// Nothing: Decide returned no events; there was nothing to do.
	Nothing
	// Refused by Decide; the error is its refusal.
	Refused
	// Reused: the ID was used with another command or payload. Nothing of this
	// one happened or will. [ErrIDReused].
	Reused
	// Contended: others were faster until the limits were reached. Nothing was
	// applied by this call, ever. [ErrContended].
	Contended
	// Unavailable: the store was, until the limits were reached or the caller's
	// context ended. Nothing was applied by this call, ever. [ErrUnavailable].
	Unavailable
	// Unknown: the events may be in the log, or may come to be. Repeating with
	// the same ID is safe and tells. [ErrUnknown].
	Unknown
	// Failed: trying again is useless, the error says why. Nothing was applied
	// by this call, ever.
	Failed
)

var statusNames = [...]string{"no status", "committed", "nothing", "refused", "reused", "contended", "unavailable", "unknown", "failed"}

func (s Status) String() string {
	if int(s) >= len(statusNames) {
		return fmt.Sprintf("Status(%d)", uint8(s))
	}
	return statusNames[s]
}

// Outcome is the answer to a call of [Run].
type Outcome[S any] struct {
	Status Status
	// Replayed says that the answer was given to an earlier attempt: one of an
	// earlier call with this ID, or one of this call whose answer was lost.
	Replayed bool
	// State is the command's state right after it: with its events folded in,
	// and without what came later. For Nothing and Refused, the state that the
	// decision was made on. Zero for any other status.
	State S
	// Events are the command's events as stored; empty unless Committed. They
	// are shared and must not be changed.
	Events []event.Record
	// Position of the last event stored under the ID, also of the marker of a
	// recorded refusal. Zero where nothing was stored.
	Position consistency.Position
	// Attempts that this call took, from 1; 0 where it ended before the first.
	Attempts int

	codecs []*event.Codec
}

// Decoded returns Events as values of their Go types.
func (o Outcome[S]) Decoded() ([]event.Event, error) {
	var out []event.Event
	for _, r := range o.Events {
		e, err := decode(o.codecs, r)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Sentinels of outcomes, found by errors.Is in what [Run] returns.
var (
	ErrIDReused    = errors.New("the ID was used with another command or payload: use a fresh ID")
	ErrContended   = errors.New("others were faster each time: try again later")
	ErrUnavailable = errors.New("no answer of the store before a limit, or the caller's context, ended: try again later")
	ErrUnknown     = errors.New("it is not known whether the events were stored: repeat with the same ID")
	ErrNoID        = errors.New("a command needs an ID: use NewID, or KeyID with the caller's idempotency key")
)

// Error is what [Run] returns unless the outcome is Committed or Nothing. A
// refusal is inside, for errors.Is and errors.As.
type Error struct {
	Command  string
	ID       uuid.UUID
	Status   Status
	Attempts int
	Err      error
}

func (e *Error) Error() string {
	if e.Status == Refused {
		return fmt.Sprintf("command %s %s: refused: %v", e.Command, e.ID, e.Err)
	}
	return fmt.Sprintf("command %s %s: %s (attempts: %d): %v", e.Command, e.ID, e.Status, e.Attempts, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// PanicError is inside the error of a command whose Decide, Evolve, view or
// event type panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic: %v (its stack is in PanicError.Stack)", e.Value)
}
