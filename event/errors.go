package event

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

var (
	// ErrUnknownType: the codec has no such event type.
	ErrUnknownType = errors.New("event type is not in the codec")
	// ErrUndecodable: the type is known, and this data is none of it. Trying
	// again is useless.
	ErrUndecodable = errors.New("event data does not decode")
	// ErrUnencodable: the value cannot become event data that reads back as
	// the same value.
	ErrUnencodable = errors.New("event cannot be stored")
	// ErrQueryKey: a query asks for a key that no event has as a string, so it
	// would observe nothing. Such errors wrap [consistency.ErrQuery] too.
	ErrQueryKey = errors.New("key would never match")
	// ErrFingerprint: the payload of a command cannot be told apart from
	// others; see [Fingerprint].
	ErrFingerprint = errors.New("command has no fingerprint")
)

// DecodeError says which stored event could not be decoded, and why. It wraps
// [ErrUnknownType] or [ErrUndecodable]; both stay true however often one tries.
type DecodeError struct {
	ID       uuid.UUID
	Type     string // as stored
	Version  int    // as stored, at least 1
	Position consistency.Position
	Err      error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("event: type %q, version %d, event_id %s at position %s: %v", e.Type, e.Version, e.ID, e.Position, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// PanicError is a panic of code that this package called: UnmarshalJSON and
// MarshalJSON of events and commands, upcasts, EventType.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// recovered, deferred, turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{p, debug.Stack()}
	}
}
