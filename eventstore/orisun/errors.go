package orisun

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cccgo/ccc/eventstore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrForeignMatch: the server counts an event as a match that is none by the
// rules of package consistency, such as a number under a queried key. Store
// what is queried as a string.
var ErrForeignMatch = errors.New("the server matches what is not a string")

func invalid(format string, args ...any) error {
	return fmt.Errorf("orisun: %w: %w: %w", eventstore.Permanent, eventstore.ErrInvalid, fmt.Errorf(format, args...))
}

// refused returns what the server's refusal of any call means, where that is
// certain: it is before anything is read or stored. Empty: not certain.
func refused(err error) eventstore.Kind {
	text := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		return eventstore.Permanent
	case codes.FailedPrecondition:
		if strings.Contains(text, "is not active") {
			return eventstore.NotApplied
		}
	case codes.ResourceExhausted:
		if strings.Contains(text, "larger than max") {
			return eventstore.Permanent
		}
	case codes.Internal:
		// A bad event on PostgreSQL; too many criteria on SQLite.
		if strings.Contains(text, "failed to insert events") || strings.Contains(text, "Expression tree is too large") {
			return eventstore.Permanent
		}
	}
	return ""
}

// saveError gives an error of a save its kind. It is Ambiguous unless it is
// known what happened: a server stores in groups, which go on without the
// caller.
func (s *Store) saveError(ctx context.Context, sent bool, err error) error {
	kind := eventstore.Ambiguous
	switch certain := refused(err); {
	case !sent:
		if kind = eventstore.NotApplied; certain == eventstore.Permanent {
			kind = certain
		}
	case status.Code(err) == codes.AlreadyExists:
		kind = eventstore.Conflict
	case certain != "":
		kind = certain
	}
	return s.failure(ctx, kind, "save", err)
}

// readError gives an error of a read its kind: a read stores nothing.
func (s *Store) readError(ctx context.Context, doing string, err error) error {
	kind := eventstore.NotApplied
	if refused(err) == eventstore.Permanent {
		kind = eventstore.Permanent
	}
	return s.failure(ctx, kind, doing, err)
}

func (s *Store) failure(ctx context.Context, kind eventstore.Kind, doing string, err error) error {
	advice := ""
	switch status.Code(err) {
	case codes.InvalidArgument:
		err = fmt.Errorf("%w: %w", eventstore.ErrInvalid, err)
	case codes.Unauthenticated:
		advice = ": check user and password"
	case codes.PermissionDenied:
		advice = ": give the user the role OPERATIONS (ADMIN for Setup)"
	case codes.FailedPrecondition:
		advice = ": make the boundary with Config.Setup"
	}
	if s.ctx.Err() != nil {
		err = errors.Join(eventstore.ErrClosed, err)
	} else if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("orisun: boundary %s: %w: %s: %w%s", s.cfg.Boundary, kind, doing, err, advice)
}
