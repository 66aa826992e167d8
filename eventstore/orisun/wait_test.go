package orisun_test

import (
	"context"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func openPolling(t *testing.T, dsn string, poll time.Duration) *orisun.Store {
	t.Helper()
	config, err := orisun.ParseDSN(dsn)
	require.NoError(t, err)
	config.Poll = poll
	store, err := config.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func head(t *testing.T, store *orisun.Store) consistency.Position {
	t.Helper()
	page, err := store.Page(t.Context(), consistency.All(), consistency.Position{}, 0)
	require.NoError(t, err)
	return page.UpTo
}

// Ascending reads of some servers lag behind commits. A command sees what is
// committed; a page ends at what is shown, and goes on when the rest is.
func TestAscendingReadsLag(t *testing.T) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: v, Boundaries: []string{"bank"}})
			store := open(t, server.DSN("bank"))
			require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
			shown := head(t, store)
			release := server.HoldAscending("bank")
			require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
			require.NoError(t, save(t.Context(), store, `{"accountId":"bob"}`))

			found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
			require.NoError(t, err)
			require.Len(t, found[0].Records, 2, "a command reads what is committed")
			latest := found[0].Records[1].Position
			for _, q := range []consistency.Query{byAda, consistency.Where("accountId", "eve"), consistency.All()} {
				page, err := store.Page(t.Context(), q, consistency.Position{}, 0)
				require.NoError(t, err)
				require.Equal(t, shown, page.UpTo, "%v", q)
				page, err = store.Page(t.Context(), q, shown, 0)
				require.NoError(t, err)
				require.Empty(t, page.Records)
				require.False(t, page.UpTo.After(shown), "%v", q)
			}

			release()
			page, err := store.Page(t.Context(), byAda, shown, 0)
			require.NoError(t, err)
			require.Len(t, page.Records, 1)
			require.Equal(t, latest, page.Records[0].Position)
			require.True(t, page.UpTo.After(latest), "up to what is no match")
		})
	}
}

// Wait wakes at an event that ascending reads show, not at one that was
// committed.
func TestWaitWakesAtWhatIsShown(t *testing.T) {
	server := start(t, orisuntest.Config{Version: orisuntest.V010, Boundaries: []string{"bank"}})
	store := openPolling(t, server.DSN("bank"), 10*time.Millisecond)
	release := server.HoldAscending("bank")
	require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, store.Wait(ctx, consistency.Position{}), context.DeadlineExceeded)
	woken := make(chan error, 1)
	go func() { woken <- store.Wait(t.Context(), consistency.Position{}) }()
	release()
	require.NoError(t, <-woken)
	require.False(t, head(t, store).IsZero())
}

// What a subscription does not say, the poll finds: the stream is silent, its
// name is locked by a dead process, or the server has none.
func TestPollWithoutHints(t *testing.T) {
	for name, spoil := range map[string]func(*orisuntest.Server){
		"silent": func(s *orisuntest.Server) { s.Silence(true) },
		"locked": func(s *orisuntest.Server) {
			for range 1000 {
				s.Refuse("CatchUpSubscribeToEvents", status.Error(codes.AlreadyExists, "subscription already exists"))
			}
		},
		"none": func(s *orisuntest.Server) {
			for range 1000 {
				s.Refuse("CatchUpSubscribeToEvents", status.Error(codes.Unimplemented, "unknown method"))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
			spoil(server)
			store := openPolling(t, server.DSN("bank"), 10*time.Millisecond)
			another := open(t, server.DSN("bank"))
			woken := make(chan error, 1)
			go func() { woken <- store.Wait(t.Context(), consistency.Position{}) }()
			require.Eventually(t, func() bool { return server.Calls("CatchUpSubscribeToEvents") > 0 }, 10*time.Second, time.Millisecond)
			require.NoError(t, save(t.Context(), another, `{"accountId":"ada"}`))
			require.NoError(t, <-woken)
		})
	}
}

// A hint wakes long before the poll, also after the connection was cut, and
// each subscription has a name of its own.
func TestHints(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	way := newDoor(t, server, nil)
	store := openPolling(t, "orisun://"+way.Addr().String()+"/bank", time.Hour)
	another := open(t, server.DSN("bank"))
	for i := range 3 {
		at := head(t, another)
		woken := make(chan error, 1)
		go func() { woken <- store.Wait(t.Context(), at) }()
		require.Eventually(t, func() bool { return server.Calls("CatchUpSubscribeToEvents") > i }, 10*time.Second, time.Millisecond)
		require.NoError(t, save(t.Context(), another, `{"accountId":"ada"}`))
		require.NoError(t, <-woken)
		way.cut()
	}
}
