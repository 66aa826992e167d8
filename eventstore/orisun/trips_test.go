package orisun_test

import (
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Round trips of a command, as a server sees them.
func TestRoundTrips(t *testing.T) {
	for _, c := range []struct {
		version orisuntest.Version
		save    string // one that follows a Snapshot of the same store
		cached  string // one whose states are kept
		found   string // what finds out that a state is old
	}{
		{orisuntest.V014, "SaveEventsV2", "SaveEventsV2", "SaveEventsV2"},
		{orisuntest.V010, "SaveEvents", "GetLatestByCriteria SaveEvents", "GetLatestByCriteria"},
	} {
		t.Run(string(c.version), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: c.version, Boundaries: []string{"bank"}})
			var calls trips
			store := openWith(t, server.DSN("bank"), calls.option())
			another := command.NewRunner(openWith(t, server.DSN("bank")), command.Config{})
			cacheless := command.NewRunner(store, command.Config{CacheBytes: -1})
			runner := command.NewRunner(store, command.Config{})

			deposits := func(r *command.Runner, account string) {
				_, err := command.Run(t.Context(), r, command.NewID(), deposit{account, 100})
				require.NoError(t, err)
			}
			deposits(another, "ada")
			calls.since()

			id := command.NewID()
			took := func(what string, r *command.Runner, id uuid.UUID, want string) {
				t.Helper()
				_, err := command.Run(t.Context(), r, id, transfer{"ada", "bob", 1})
				require.NoError(t, err)
				require.Equal(t, want, calls.since(), what)
			}
			took("whole histories", cacheless, id, "GetEvents "+c.save)
			took("a repeat", cacheless, id, "GetEvents")
			took("the first with a cache", runner, command.NewID(), "GetEvents "+c.save)
			took("cached", runner, command.NewID(), c.cached)
			took("a repeat, with the states cached", runner, id, c.found+" GetEvents GetEvents")
			deposits(another, "ada")
			took("a catch-up", runner, command.NewID(), c.found+" GetEvents "+c.save)

			_, err := command.Run(t.Context(), cacheless, command.NewID(), payIn{"ada", "till", 1})
			require.NoError(t, err)
			require.Equal(t, "GetLatestByCriteria GetEvents "+c.save, calls.since(), "a history and a latest match")
		})
	}
}
