package eventstore

import (
	"context"
	"errors"
	"fmt"
)

// Kind says what an error means for what was to be appended. Kinds are errors
// themselves, to be wrapped: fmt.Errorf("%w: append: %w", eventstore.Ambiguous, err).
// The store decides, because only it knows whether bytes may have left.
type Kind string

const (
	// Conflict: an observation does not hold. Nothing was stored.
	Conflict Kind = "conflict"
	// NotApplied: nothing was stored and nothing will be, for certain. Trying
	// again may help.
	NotApplied Kind = "not applied"
	// Ambiguous: it may have been stored, or may be yet.
	Ambiguous Kind = "ambiguous"
	// Permanent: nothing was stored by this call, and trying again is useless.
	Permanent Kind = "permanent"
)

func (k Kind) Error() string { return string(k) }

// KindOf returns the kind that err carries, however deep it is wrapped. An
// error without one is [Ambiguous]. Of nil it is empty.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if kind, ok := errors.AsType[Kind](err); ok {
		return kind
	}
	return Ambiguous
}

// What makes an append or a read [Permanent], or the store unusable.
var (
	// ErrInvalid: the call holds what no store takes; the message says what.
	ErrInvalid = errors.New("invalid")
	// ErrDuplicateEvent: an event with this event_id is stored already, in
	// another save than the observations spoke of.
	ErrDuplicateEvent = errors.New("event_id is stored already")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("eventstore: %w: %w: %w", Permanent, ErrInvalid, fmt.Errorf(format, args...))
}

// Closed is the error of every call to a closed store.
func Closed() error { return fmt.Errorf("eventstore: %w: %w", Permanent, ErrClosed) }

// NotStarted is for stores: the error of an append whose context had ended
// before anything was sent, so that nothing was or will be stored.
func NotStarted(ctx context.Context) error {
	return fmt.Errorf("eventstore: %w: append not begun: %w", NotApplied, context.Cause(ctx))
}

var errNoID = errors.New("the event_id is missing")

func tooLarge(what string, size int) error {
	return fmt.Errorf("%s of %d bytes, the limit is %d: store a reference instead", what, size, MaxEventBytes)
}

func reservedKey(key string) error {
	return fmt.Errorf("key %q is reserved for the framework: rename it", key)
}

func badMetadata(text string) error {
	return fmt.Errorf("metadata %.80q is not UTF-8, or holds U+0000", text)
}
