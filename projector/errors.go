package projector

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

var (
	// ErrMisuse: the projector cannot work as it was set up; see [New].
	ErrMisuse = errors.New("projector cannot work as it is set up")
	// ErrForeignLog: the read model was made from another log than the store
	// has, or from more of it than is there. The error is a [*ForeignLogError].
	ErrForeignLog = errors.New("the read model belongs to another log")
	// ErrHalted: an event that cannot be applied stands in the way. The error
	// is a [*HaltedError].
	ErrHalted = errors.New("projector is halted")
	// ErrParked: the position is reached, but an event up to there is parked and
	// waits for somebody to act. The error is a [*ParkedError].
	ErrParked = errors.New("an event is parked")
	// ErrNotYet: the time that WaitFor had ended first.
	ErrNotYet = errors.New("position is not applied yet")
)

// ForeignLogError says what the log has where the checkpoint stands.
type ForeignLogError struct {
	Name       Name
	Checkpoint Checkpoint
	Log        uuid.UUID            // of the store, if it tells
	Found      consistency.Position // of the log's last event up to the checkpoint; zero: none
	FoundID    uuid.UUID            // its event_id
}

func (e *ForeignLogError) Error() string {
	var what string
	switch at := e.Checkpoint; {
	case e.Log != uuid.Nil && at.Log != uuid.Nil && e.Log != at.Log:
		what = fmt.Sprintf("it was made from log %s, this is log %s", at.Log, e.Log)
	case e.Found == at.Position:
		what = fmt.Sprintf("at its checkpoint %s stood event %s, this log has %s there", at.Position, at.EventID, e.FoundID)
	default:
		what = fmt.Sprintf("this log has no event at its checkpoint %s (event %s)", at.Position, at.EventID)
	}
	return fmt.Sprintf("projector %s: %v: %s: give the log that the model was made from, or delete the model together with its checkpoint to build it anew", e.Name, ErrForeignLog, what)
}

// Unwrap returns [ErrForeignLog].
func (e *ForeignLogError) Unwrap() error { return ErrForeignLog }

// HaltedError names the event that a projector is halted at.
type HaltedError struct {
	Name    Name
	Failure Failure
}

func (e *HaltedError) Error() string {
	reason, _, _ := strings.Cut(e.Failure.Error, "\n")
	return fmt.Sprintf("projector %s: %v at position %s after %d attempts: event %s of type %q: %s: correct the handler or what it needs; a projector that runs tries it again slowly, and at once after Resume",
		e.Name, ErrHalted, e.Failure.Position, e.Failure.Attempts, e.Failure.EventID, e.Failure.Type, reason)
}

// Unwrap returns [ErrHalted].
func (e *HaltedError) Unwrap() error { return ErrHalted }

// ParkedError names the first parked event that a wait was about.
type ParkedError struct {
	Name  Name
	At    consistency.Position // reached
	First Parked
}

func (e *ParkedError) Error() string {
	r, what := e.First.Record, "waits behind an earlier one"
	if e.First.Failed {
		reason, _, _ := strings.Cut(e.First.Error, "\n")
		what = fmt.Sprintf("could not be applied in %d attempts: %s", e.First.Attempts, reason)
	}
	return fmt.Sprintf("projector %s: position %s is reached, but %v for %q: event %s of type %q at %s %s: correct the cause and call Retry, or Discard the event that failed",
		e.Name, e.At, ErrParked, e.First.Keys, r.ID, r.Type, r.Position, what)
}

// Unwrap returns [ErrParked].
func (e *ParkedError) Unwrap() error { return ErrParked }

// PanicError is a panic of a handler.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value that the handler panicked with, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// failedEvent is what ends a batch at an event that could not be applied.
type failedEvent struct {
	index int // among the events of the batch
	err   error
}

func (e *failedEvent) Error() string { return e.err.Error() }
func (e *failedEvent) Unwrap() error { return e.err }
