package orisun_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var byAda = consistency.Where("accountId", "ada")

func record(data string) event.Record {
	return event.Record{ID: uuid.New(), Type: "MoneyPosted", Data: []byte(data)}
}

func save(ctx context.Context, s eventstore.Store, data string, seen ...consistency.Observation) error {
	_, err := s.Append(ctx, []event.Record{record(data)}, seen)
	return err
}

// What each answer of a server says about a save, and about a read.
func TestErrorTable(t *testing.T) {
	for _, c := range []struct {
		code    codes.Code
		message string
		save    eventstore.Kind
		read    eventstore.Kind
	}{
		{codes.AlreadyExists, "optimistic lock", eventstore.Conflict, eventstore.NotApplied},
		{codes.InvalidArgument, "bad", eventstore.Permanent, eventstore.Permanent},
		{codes.Unauthenticated, "who", eventstore.Permanent, eventstore.Permanent},
		{codes.PermissionDenied, "no", eventstore.Permanent, eventstore.Permanent},
		{codes.Unimplemented, "what", eventstore.Permanent, eventstore.Permanent},
		{codes.ResourceExhausted, "trying to send message larger than max (70000000 vs. 67108864)", eventstore.Permanent, eventstore.Permanent},
		{codes.ResourceExhausted, "queue is full", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.Internal, "failed to insert events: bad event", eventstore.Permanent, eventstore.Permanent},
		{codes.Internal, "Expression tree is too large (maximum depth 1000)", eventstore.Permanent, eventstore.Permanent},
		{codes.Internal, "something", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.FailedPrecondition, "something", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.DeadlineExceeded, "late", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.Canceled, "gone", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.Unavailable, "down", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.Aborted, "again", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.Unknown, "?", eventstore.Ambiguous, eventstore.NotApplied},
		{codes.DataLoss, "?", eventstore.Ambiguous, eventstore.NotApplied},
	} {
		for _, v := range versions {
			t.Run(string(v)+" "+c.code.String()+" "+c.message, func(t *testing.T) {
				server := start(t, orisuntest.Config{Version: v, Boundaries: []string{"bank"}})
				store := open(t, server.DSN("bank"))
				server.Refuse(saveMethod(v), status.Error(c.code, c.message))
				err := save(t.Context(), store, `{"accountId":"ada"}`)
				require.Equal(t, c.save, eventstore.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "boundary bank")
				require.ErrorContains(t, err, c.message)

				server.Refuse("GetEvents", status.Error(c.code, c.message))
				_, err = store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
				if c.code == codes.ResourceExhausted { // it asks for less
					require.NoError(t, err)
					return
				}
				require.Equal(t, c.read, eventstore.KindOf(err), "%v", err)
			})
		}
	}
}

func saveMethod(v orisuntest.Version) string {
	if v == orisuntest.V010 {
		return "SaveEvents"
	}
	return "SaveEventsV2"
}

// A save that no connection took did nothing: everything else that fails on the
// way may have done it.
func TestNeverSent(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	store := open(t, server.DSN("bank"))
	require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))

	server.Close()
	require.Eventually(t, func() bool { // until the connection knows
		return eventstore.KindOf(save(t.Context(), store, `{"accountId":"ada"}`)) == eventstore.NotApplied
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, store.Close())
	require.ErrorIs(t, save(t.Context(), store, `{"accountId":"ada"}`), eventstore.ErrClosed)
}

// The connection is cut while a save is under way, which lands: the answer is
// not known, and nothing sends the save again.
func TestCutInASave(t *testing.T) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: v, Boundaries: []string{"bank"}})
			store := open(t, server.DSN("bank"))
			calls := server.Calls(saveMethod(v))
			server.Boundary("bank").After(func(storefault.Call) { server.Cut() })
			err := save(t.Context(), store, `{"accountId":"ada"}`)
			require.Equal(t, eventstore.Ambiguous, eventstore.KindOf(err), "%v", err)
			require.Equal(t, calls+1, server.Calls(saveMethod(v)))
			server.Boundary("bank").After(nil)
			found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
			require.NoError(t, err)
			require.Len(t, found[0].Records, 1)
		})
	}
}

// A boundary that is just starting is waited for; one that is not there is said
// to be missing.
func TestInactiveBoundary(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	store := open(t, server.DSN("bank"))
	starting := status.Error(codes.FailedPrecondition, `boundary "bank" is not active`)
	server.Refuse("SaveEventsV2", starting, starting)
	server.Refuse("GetEvents", starting)
	server.Refuse("GetLatestByCriteria", starting)
	require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
	_, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
	require.NoError(t, err)
	_, err = store.Snapshot(t.Context(), eventstore.Part{Query: byAda, LatestOnly: true})
	require.NoError(t, err)

	none := open(t, server.DSN("none"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = save(ctx, none, `{"accountId":"ada"}`)
	require.Equal(t, eventstore.Permanent, eventstore.KindOf(err))
	require.ErrorContains(t, err, "make the boundary with Config.Setup")
}

// Positions that cannot be are no success.
func TestBadPositions(t *testing.T) {
	answer := &wire.WriteResult{}
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	store := openWith(t, server.DSN("bank"), changed(func(method string, out any) {
		if result, ok := out.(*wire.WriteResult); ok && method == "SaveEventsV2" {
			result.LogPosition = answer.LogPosition
		}
	}))
	for _, p := range []*wire.Position{nil, {}, {CommitPosition: -1, PreparePosition: -1}, {CommitPosition: 5, PreparePosition: -1}, {CommitPosition: 5}} {
		answer.LogPosition = p
		_, err := store.Append(t.Context(), []event.Record{record(`{"accountId":"ada"}`), record(`{"accountId":"ada"}`)}, nil)
		require.Equal(t, eventstore.Ambiguous, eventstore.KindOf(err), "%v: %v", p, err)
	}
}

// A number under a queried key is no match by our rules, and is one by the
// servers': that is an error, not an endless conflict.
func TestForeignMatch(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	foreign := func(e *wire.Event) { e.Data = strings.ReplaceAll(e.Data, `"17"`, `17`) }
	store := openWith(t, server.DSN("bank"), changed(func(_ string, out any) {
		switch out := out.(type) {
		case *wire.GetEventsResponse:
			for _, e := range out.Events {
				foreign(e)
			}
		case *wire.GetLatestByCriteriaResponse:
			for _, r := range out.Results {
				foreign(r.Event)
			}
		}
	}))
	require.NoError(t, save(t.Context(), store, `{"accountId":"17"}`))
	for _, latest := range []bool{false, true} {
		_, err := store.Snapshot(t.Context(), eventstore.Part{Query: consistency.Where("accountId", "17"), LatestOnly: latest})
		require.ErrorIs(t, err, orisun.ErrForeignMatch)
		require.Equal(t, eventstore.Permanent, eventstore.KindOf(err))
	}
	page, err := store.Page(t.Context(), consistency.Where("accountId", "17"), consistency.Position{}, 0)
	require.NoError(t, err, "a projector just does not get it")
	require.Empty(t, page.Records)
	require.False(t, page.UpTo.IsZero())
}

// Passwords are in no text.
func TestPasswordsAreSecret(t *testing.T) {
	const secret = "p%40ss"
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}, User: "u", Password: "other"})
	dsn := "orisun://u:" + secret + "@" + server.Addr() + "/bank"
	_, err := orisun.Open(t.Context(), dsn)
	require.ErrorContains(t, err, "check user and password")
	require.Equal(t, eventstore.Permanent, eventstore.KindOf(err))
	texts := []string{err.Error()}
	for _, bad := range []string{"x" + dsn, dsn + "?plain=maybe", dsn + "?no=1", dsn + "?plain=true&plain=true", dsn + "/x", dsn + "?%zz",
		"orisun://u:" + secret + "%zz@h:1/b", "orisun://u:" + secret + "@h/b", "orisun://u:" + secret + "@h:1/1", "orisun://u:" + secret + "@h:1/b?ca=/none"} {
		_, err := orisun.ParseDSN(bad)
		require.Error(t, err, bad)
		texts = append(texts, err.Error())
	}
	config, err := orisun.ParseDSN(dsn)
	require.NoError(t, err)
	require.Equal(t, "p@ss", config.Password)
	texts = append(texts, config.String(), config.GoString())
	for _, text := range texts {
		require.NotContains(t, text, "p@ss")
		require.NotContains(t, text, secret)
	}
}

// Nobody answers: Open ends with its context.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	_, err = orisun.Open(ctx, "orisun://"+addr+"/bank")
	require.ErrorContains(t, err, addr)
	require.ErrorContains(t, err, "enough")
}
