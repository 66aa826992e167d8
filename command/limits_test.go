package command_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.onAppend = func(int, appendFn) (eventstore.Receipt, error) { return eventstore.Receipt{}, eventstore.NotApplied }
		began := time.Now()
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxElapsed: time.Minute, MaxAttempts: 1e9}), id(1), deposit{"ada", 1})
		endedAs(t, command.Unavailable, command.ErrUnavailable, out, err)
		require.LessOrEqual(t, time.Since(began), time.Minute)
		require.Greater(t, out.Attempts, 50)

		out, err = command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 3}), id(1), deposit{"ada", 1})
		endedAs(t, command.Unavailable, command.ErrUnavailable, out, err)
		require.Equal(t, 3, out.Attempts)

		ended, cancel := context.WithCancel(ctx)
		cancel()
		out, err = command.Run(ended, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
		endedAs(t, command.Unavailable, context.Canceled, out, err)
	})
}

func TestContended(t *testing.T) {
	s := newStore(t)
	s.onSnapshot = func(_ int, parts []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		res, err := do()
		if !parts[1].LatestOnly {
			_, err := s.Store.Append(ctx, []event.Record{{ID: uuid.New(), Type: "AccountOpened", Data: []byte(`{"accountId":"ada"}`)}}, nil)
			require.NoError(t, err)
		}
		return res, err
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 5}), id(1), deposit{"ada", 1})
		require.Equal(t, command.Contended, out.Status, "%v", err)
		require.ErrorIs(t, err, command.ErrContended)
		require.ErrorIs(t, err, eventstore.Conflict)
	})
}

func TestCallerEndsWhileTheAnswerIsOpen(t *testing.T) {
	s := newStore(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(ctx)
		s.onAppend = func(_ int, do appendFn) (eventstore.Receipt, error) {
			_, err := do()
			require.NoError(t, err)
			cancel()
			return eventstore.Receipt{}, ctx.Err()
		}
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 10})
		require.NoError(t, err) // the last look has a time of its own
		require.True(t, out.Replayed)
	})
}

func TestLastLookEnds(t *testing.T) {
	s := newStore(t)
	synctest.Test(t, func(t *testing.T) {
		s.onAppend = func(int, appendFn) (eventstore.Receipt, error) { return eventstore.Receipt{}, eventstore.Ambiguous }
		s.Store = hangs{s.Store}
		began := time.Now()
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1),
			rule("none", accounts.None(), func(account) ([]event.Event, error) { return []event.Event{noted{"x"}}, nil }))
		endedAs(t, command.Unknown, command.ErrUnknown, out, err)
		require.Equal(t, 17*time.Second, time.Since(began).Round(time.Second), "15 s for the call, 2 s for the last look")
	})
}

// hangs is a store whose reads never answer.
type hangs struct{ eventstore.Store }

func (hangs) Snapshot(ctx context.Context, _ ...eventstore.Part) ([]eventstore.Result, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
