package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cccgo/ccc/eventstore"
	"github.com/stretchr/testify/require"
)

func TestKindOf(t *testing.T) {
	require.Empty(t, eventstore.KindOf(nil))
	require.Equal(t, eventstore.Ambiguous, eventstore.KindOf(io.ErrUnexpectedEOF), "without a kind")
	require.Equal(t, eventstore.Ambiguous, eventstore.KindOf(context.DeadlineExceeded))
	for _, kind := range []eventstore.Kind{eventstore.Conflict, eventstore.NotApplied, eventstore.Ambiguous, eventstore.Permanent} {
		err := fmt.Errorf("one: %w", fmt.Errorf("two: %w", fmt.Errorf("%w: three: %w", kind, io.EOF)))
		require.Equal(t, kind, eventstore.KindOf(err))
		require.ErrorIs(t, err, kind)
		require.ErrorIs(t, err, io.EOF, "the cause stays")
		require.Equal(t, kind, eventstore.KindOf(errors.Join(io.EOF, err)))
		require.Equal(t, kind, eventstore.KindOf(kind))
	}
}

func TestErrorsOfStores(t *testing.T) {
	require.ErrorIs(t, eventstore.Closed(), eventstore.ErrClosed)
	require.Equal(t, eventstore.Permanent, eventstore.KindOf(eventstore.Closed()))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	err := eventstore.NotStarted(ctx)
	require.Equal(t, eventstore.NotApplied, eventstore.KindOf(err))
	require.ErrorIs(t, err, io.ErrClosedPipe, "the cause says why")
}
