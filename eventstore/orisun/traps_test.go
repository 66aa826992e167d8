package orisun_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Each of these does something else on a server than one would think.

func TestNumbersThatFloat64DoesNotKeep(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		var calls trips
		store := openWith(t, dsn, calls.option())
		calls.since()
		for _, n := range []string{"9007199254740993", "-9007199254740993", "0.1000000000000000055511151231257827", "1e400", "12345678901234567890", "1e-400"} {
			err := save(t.Context(), store, `{"accountId":"ada","deep":[{"n":`+n+`}]}`)
			require.ErrorIs(t, err, eventstore.ErrInvalid, n)
			require.ErrorContains(t, err, n)
			require.ErrorContains(t, err, "store it as a string")
		}
		require.Empty(t, calls.since(), "nothing is sent")
		const kept = `{"a":0.1,"accountId":"ada","b":1.50,"c":9007199254740992,"d":1E2,"e":0.000,"f":-7,"g":"9007199254740993"}`
		require.NoError(t, save(t.Context(), store, kept))
		found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
		require.NoError(t, err)
		require.JSONEq(t, kept, string(found[0].Records[0].Data))
	})
}

// Empty criteria are dropped by one server, mean every event on another.
func TestEmptyCriteriaAreNeverSent(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		var calls trips
		store := openWith(t, dsn, calls.option())
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
		calls.since()
		err := save(t.Context(), store, `{"accountId":"ada"}`, consistency.Observation{Query: consistency.All()})
		require.ErrorIs(t, err, eventstore.ErrInvalid)
		require.ErrorContains(t, err, "name the types")
		require.Empty(t, calls.since())
		for _, latest := range []bool{false, true} {
			found, err := store.Snapshot(t.Context(), eventstore.Part{Query: consistency.All(), LatestOnly: latest}, eventstore.Part{Query: consistency.Where("accountId", "bob"), LatestOnly: latest})
			require.NoError(t, err)
			require.Len(t, found[0].Records, 1)
			require.Empty(t, found[1].Records)
		}
	})
}

// A key that stands twice in a criterion: servers keep the last. A query that
// says so meets nothing, so it is refused before it is sent.
func TestOneKeyTwice(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		store := openWith(t, dsn)
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
		both := consistency.Where("accountId", "bob").And(byAda)
		_, err := store.Snapshot(t.Context(), eventstore.Part{Query: both})
		require.ErrorIs(t, err, eventstore.ErrInvalid)
		require.ErrorIs(t, save(t.Context(), store, `{"accountId":"ada"}`, consistency.Observation{Query: both}), eventstore.ErrInvalid)
	})
}

// A save without observations is unconditional: that is what was asked for. One
// with observations never goes out without its query.
func TestSavesWithoutAQuery(t *testing.T) {
	for _, v := range versions {
		t.Run(string(v), func(t *testing.T) {
			server := start(t, orisuntest.Config{Version: v, Boundaries: []string{"bank"}})
			var sent []any
			store := openWith(t, server.DSN("bank"), asked(func(in any) { sent = append(sent, in) }))
			require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
			require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
			sent = nil
			err := save(t.Context(), store, `{"accountId":"ada"}`, consistency.Observation{Query: byAda})
			require.Equal(t, eventstore.Conflict, eventstore.KindOf(err))
			switch request := sent[len(sent)-1].(type) {
			case *wire.SaveEventsRequest:
				require.Len(t, request.Query.SubsetQuery.Criteria, 1)
				require.EqualValues(t, -1, request.Query.ExpectedPosition.CommitPosition, "{0,0} is not 'nothing yet'")
			case *wire.SaveEventsV2Request:
				require.Len(t, request.Consistency, 1)
				require.EqualValues(t, -1, request.Consistency[0].Position.PreparePosition)
			default:
				t.Fatalf("%T", request)
			}
		})
	}
}

// SQLite servers fail from about 999 criteria on, and say so in words nobody
// understands.
func TestTooManyCriteria(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		var calls trips
		store := openWith(t, dsn, calls.option())
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
		parts := func(n int) (parts []eventstore.Part) {
			for i := range n {
				parts = append(parts, eventstore.Part{Query: consistency.Where("accountId", fmt.Sprint(i)).Or(byAda)})
			}
			return parts
		}
		found, err := store.Snapshot(t.Context(), parts(240)...)
		require.NoError(t, err)
		require.Len(t, found[239].Records, 1)
		calls.since()
		_, err = store.Snapshot(t.Context(), parts(500)...)
		require.ErrorIs(t, err, eventstore.ErrInvalid)
		require.ErrorContains(t, err, "1000 criteria")
		require.Empty(t, calls.since())
	})
}

// PostgreSQL servers fail on U+0000, escaped or not.
func TestNUL(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		var calls trips
		store := openWith(t, dsn, calls.option())
		calls.since()
		require.ErrorIs(t, save(t.Context(), store, `{"accountId":"a\u0000b"}`), eventstore.ErrInvalid)
		require.ErrorIs(t, save(t.Context(), store, `{"accountId":"ada","deep":["\u0000"]}`), eventstore.ErrInvalid)
		require.Empty(t, calls.since())
	})
}

// gRPC's own limit for answers is 4 MiB.
func TestLargeAnswers(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		store := openWith(t, dsn)
		data := `{"accountId":"ada","text":"` + strings.Repeat("x", 900_000) + `"}`
		for range 8 {
			require.NoError(t, save(t.Context(), store, data))
		}
		found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
		require.NoError(t, err)
		require.Len(t, found[0].Records, 8)
		page, err := store.Page(t.Context(), byAda, consistency.Position{}, 0)
		require.NoError(t, err)
		require.Len(t, page.Records, 8)
	})
}

// A page that is larger than a server sends is asked for in smaller ones.
func TestAnswersTooLargeForAServer(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	store := open(t, server.DSN("bank"))
	data := `{"accountId":"ada","text":"` + strings.Repeat("x", 1_000_000) + `"}`
	for range 70 {
		require.NoError(t, save(t.Context(), store, data))
	}
	found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
	require.NoError(t, err)
	require.Len(t, found[0].Records, 70)
	n := 0
	for _, err := range eventstore.All(t.Context(), store, byAda, consistency.Position{}) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 70, n)
}

func TestAppendsTooLargeForAServer(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	store := open(t, server.DSN("bank"))
	data := []byte(`{"accountId":"ada","text":"` + strings.Repeat("x", 1_000_000) + `"}`)
	records := make([]event.Record, 70)
	for i := range records {
		records[i] = event.Record{ID: uuid.New(), Type: "MoneyPosted", Data: data}
	}
	_, err := store.Append(t.Context(), records, nil)
	require.ErrorIs(t, err, eventstore.ErrInvalid)
}

// Data comes back with its keys sorted, and what 0.10 writes into it is cut out
// again. An ID may be any UUID.
func TestDataComesBackAnew(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		store := openWith(t, dsn)
		data := `{"z":1,"accountId":"ada","eventTypes":"x","a":{"y":null,"eventType":"inside","b":"<é \" \\ \u0001>"}}`
		require.NoError(t, save(t.Context(), store, data))
		found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
		require.NoError(t, err)
		require.JSONEq(t, data, string(found[0].Records[0].Data))
		require.Equal(t, "MoneyPosted", found[0].Records[0].Type)
	})
}

// Where an answer of 0.10 does not show what was written (its own key in the
// data), the key is refused before it is lost.
func TestReservedKeys(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		var calls trips
		store := openWith(t, dsn, calls.option())
		calls.since()
		for _, key := range []string{"eventType", "__eventType", "__x"} {
			err := save(t.Context(), store, `{"accountId":"ada","`+key+`":"x"}`)
			require.ErrorIs(t, err, eventstore.ErrInvalid, key)
		}
		require.Empty(t, calls.since())
	})
}

// On 0.10 several observations become one query at one position. That is right
// only where they held at one moment: else it is looked first.
func TestOneQueryIsAsGoodAsSeveral(t *testing.T) {
	onServers(t, func(t *testing.T, dsn string, _ bool) {
		store := openWith(t, dsn)
		byBob := consistency.Where("accountId", "bob")
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
		found, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
		require.NoError(t, err)
		ada := consistency.Observation{Query: byAda, At: found[0].Last}
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`), "the observation is old now")
		require.NoError(t, save(t.Context(), store, `{"accountId":"bob"}`))
		found, err = store.Snapshot(t.Context(), eventstore.Part{Query: byBob})
		require.NoError(t, err)
		bob := consistency.Observation{Query: byBob, At: found[0].Last}

		// Bob's position is the latest of both, and Ada's event lies before it.
		err = save(t.Context(), store, `{"accountId":"eve"}`, ada, bob)
		require.Equal(t, eventstore.Conflict, eventstore.KindOf(err), "%v", err)

		found, err = store.Snapshot(t.Context(), eventstore.Part{Query: byAda}, eventstore.Part{Query: byBob})
		require.NoError(t, err)
		ada.At, bob.At = found[0].Last, found[1].Last
		require.NoError(t, save(t.Context(), store, `{"accountId":"eve"}`, bob, ada, bob), "together they are one moment, in any order")
		twice := consistency.Observation{Query: byBob, At: ada.At}
		require.Equal(t, eventstore.Conflict, eventstore.KindOf(save(t.Context(), store, `{"accountId":"eve"}`, bob, twice)))
	})
}
