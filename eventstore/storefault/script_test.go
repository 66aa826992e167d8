package storefault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/stretchr/testify/require"
)

var errSorry = errors.New("sorry")

// What each fault says to the caller, and what is in the log right after it
// and in the end.
func TestWhatFaultsOfAppendsDo(t *testing.T) {
	for _, c := range []struct {
		fault       storefault.Fault
		kind        eventstore.Kind
		soon, later int
	}{
		{storefault.Pass, "", 1, 1},
		{storefault.LoseAnswer, eventstore.Ambiguous, 1, 1},
		{storefault.LoseRequest, eventstore.Ambiguous, 0, 0},
		{storefault.LandLate, eventstore.Ambiguous, 0, 1},
		{storefault.LandBefore(9), eventstore.Ambiguous, 0, 1},
		{storefault.LandIn(time.Hour), eventstore.Ambiguous, 0, 1},
		{storefault.Double, eventstore.Conflict, 1, 1},
		{storefault.Echo, "", 1, 1},
		{storefault.Refuse, eventstore.NotApplied, 0, 0},
		{storefault.Fail(errSorry), eventstore.Ambiguous, 0, 0},
		{storefault.Fail(fmt.Errorf("%w: %w", eventstore.Permanent, errSorry)), eventstore.Permanent, 0, 0},
		{storefault.FailAfter(errSorry), eventstore.Ambiguous, 1, 1},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			b := newBed(t, storefault.Config{})
			b.Script(c.fault)
			b.kind(c.kind, b.save(t.Context(), "a"))
			require.Equal(t, c.soon, b.stored("a"))
			b.Settle()
			require.Equal(t, c.later, b.stored("a"))
			require.Zero(t, b.InFlight())

			require.NoError(t, b.save(t.Context(), "b"), "the script is over")
			if c.fault.String() != "pass" {
				require.Equal(t, map[string]int{c.fault.String(): 1}, b.Counts().Faults)
			}
		})
	}
}

// Whoever doubles a request without an observation is answered by the first
// copy: the second one's answer would be a lie.
func TestDoubleWithoutObservation(t *testing.T) {
	b := newBed(t, storefault.Config{})
	b.Script(storefault.Double)
	receipt, err := b.Append(t.Context(), one("a"), nil)
	require.NoError(t, err)
	require.Len(t, receipt.Positions, 1)
	require.Equal(t, 1, b.stored("a"))
}

func TestHangEndsWithItsContextOrWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, storefault.Config{})
		b.Script(storefault.Hang, storefault.Hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := b.save(ctx, "a")
		b.kind(eventstore.Ambiguous, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, 1, b.stored("a"))

		heard := make(chan error)
		go func() { heard <- b.save(context.Background(), "b") }()
		synctest.Wait()
		require.NoError(t, b.Close())
		b.kind(eventstore.Ambiguous, <-heard)
	})
}

func TestLateCopiesAreCheckedWhenTheyLand(t *testing.T) {
	b := newBed(t, storefault.Config{})
	b.Script(storefault.LandLate, storefault.Pass, storefault.Echo)
	b.kind(eventstore.Ambiguous, b.save(t.Context(), "a"))
	require.NoError(t, b.save(t.Context(), "a"), "the second try is first")
	require.NoError(t, b.save(t.Context(), "b"))
	require.Equal(t, 2, b.InFlight())
	b.Settle()
	require.Equal(t, 1, b.stored("a"))
	require.Equal(t, 1, b.stored("b"))
	require.Equal(t, 2, b.Counts().Void)
	require.Zero(t, b.Counts().Landed)
}

func TestLandBeforeACall(t *testing.T) {
	b := newBed(t, storefault.Config{})
	b.Script(storefault.LandBefore(2))
	b.kind(eventstore.Ambiguous, b.save(t.Context(), "a"))
	part := eventstore.Part{Query: consistency.Where("commandId", "a")}

	results, err := b.Snapshot(t.Context(), part)
	require.NoError(t, err)
	require.Empty(t, results[0].Records)
	require.NoError(t, waitBriefly(b), "a wait is no call")
	require.Zero(t, b.stored("a"))

	results, err = b.Snapshot(t.Context(), part)
	require.NoError(t, err)
	require.Len(t, results[0].Records, 1)
	require.Equal(t, 1, b.Counts().Landed)
}

// waitBriefly makes a call that is no round trip.
func waitBriefly(b *bed) error {
	ended, cancel := context.WithCancel(b.t.Context())
	cancel()
	if err := b.Wait(ended, consistency.Position{}); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}

func TestLandInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, storefault.Config{})
		b.Script(storefault.LandIn(time.Second))
		b.kind(eventstore.Ambiguous, b.save(t.Context(), "a"))
		began := time.Now()
		require.NoError(t, b.Wait(t.Context(), consistency.Position{}))
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, b.stored("a"))
		require.Zero(t, b.InFlight())
	})
}

// slow takes a second for each append.
type slow struct{ eventstore.Store }

func (s slow) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	time.Sleep(time.Second)
	return s.Store.Append(ctx, records, seen)
}

func TestSettleWaitsForWhatIsLanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storefault.New(slow{memstore.New()}, storefault.Config{})
		began := time.Now()
		s.Script(storefault.LandIn(time.Second), storefault.LandIn(time.Second))
		for _, id := range []string{"a", "b"} {
			_, err := s.Append(t.Context(), one(id), nil)
			require.Equal(t, eventstore.Ambiguous, eventstore.KindOf(err))
		}
		time.Sleep(1500 * time.Millisecond)
		require.Zero(t, s.Counts().Landed)
		s.Settle()
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Equal(t, 2, s.Counts().Landed)
		require.NoError(t, s.Close())
	})
}

func TestCloseDropsWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, storefault.Config{})
		b.Script(storefault.LandIn(time.Second), storefault.LandLate)
		b.kind(eventstore.Ambiguous, b.save(t.Context(), "a"))
		b.kind(eventstore.Ambiguous, b.save(t.Context(), "b"))
		b.Drop()
		require.Zero(t, b.InFlight())
		b.Settle()
		time.Sleep(time.Minute)
		require.Zero(t, b.stored("a")+b.stored("b"))

		b.Script(storefault.LandIn(time.Second))
		b.kind(eventstore.Ambiguous, b.save(t.Context(), "c"))
		require.NoError(t, b.Close())
		require.Zero(t, b.InFlight())
		require.ErrorIs(t, b.save(t.Context(), "d"), eventstore.ErrClosed)
	})
}

// The caller may use its memory again once it has an answer.
func TestFlightsHaveMemoryOfTheirOwn(t *testing.T) {
	b := newBed(t, storefault.Config{})
	b.Script(storefault.LandLate)
	records := one("a")
	_, err := b.Append(t.Context(), records, guard("a"))
	b.kind(eventstore.Ambiguous, err)
	copy(records[0].Data, `{"commandId":"z"}`)
	records[0].Type = "U"
	b.Settle()
	require.Equal(t, 1, b.stored("a"))
}

// What is refused before anything is sent meets no fault.
func TestInvalidAppendsMeetNoFault(t *testing.T) {
	b := newBed(t, storefault.Config{LoseAnswer: 1})
	_, err := b.Append(t.Context(), nil, nil)
	require.ErrorIs(t, err, eventstore.ErrInvalid)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	b.kind(eventstore.NotApplied, b.save(ended, "a"))
}

func TestFaultsOfReads(t *testing.T) {
	b := newBed(t, storefault.Config{})
	for i := range 5 {
		require.NoError(t, b.save(t.Context(), fmt.Sprint(i)))
	}
	all := eventstore.Part{Query: consistency.All()}
	b.ScriptSnapshots(storefault.Fail(errSorry), storefault.Stale(2), storefault.Stale(5), storefault.Stale(50), storefault.Pass)
	_, err := b.Snapshot(t.Context(), all)
	require.ErrorIs(t, err, errSorry)
	for _, want := range []int{3, 0, 0, 5} {
		results, err := b.Snapshot(t.Context(), all, eventstore.Part{Query: consistency.All(), LatestOnly: true})
		require.NoError(t, err)
		require.Len(t, results[0].Records, want)
		require.Equal(t, results[0].Last, results[1].Last)
	}

	b.ScriptSnapshots(storefault.Stale(1))
	results, err := b.Snapshot(t.Context(), eventstore.Part{Query: all.Query, UpTo: consistency.NewPosition(0, 2)})
	require.NoError(t, err)
	require.Len(t, results[0].Records, 2)

	b.ScriptPages(storefault.Fail(errSorry), storefault.Lag(2), storefault.Lag(9), storefault.Pass)
	_, err = b.Page(t.Context(), all.Query, consistency.Position{}, 0)
	require.ErrorIs(t, err, errSorry)
	page, err := b.Page(t.Context(), all.Query, consistency.Position{}, 0)
	require.NoError(t, err)
	require.Len(t, page.Records, 3)
	require.Equal(t, page.Records[2].Position, page.UpTo)
	require.Equal(t, page.Records[2].ID, page.UpToID)
	third := page.Records[2]

	page, err = b.Page(t.Context(), all.Query, third.Position, 0)
	require.NoError(t, err)
	require.Equal(t, eventstore.Page{Records: page.Records, UpTo: third.Position, UpToID: third.ID}, page)
	require.Empty(t, page.Records)

	page, err = b.Page(t.Context(), all.Query, third.Position, 0)
	require.NoError(t, err)
	require.Len(t, page.Records, 2)
}

func TestScriptsThatCannotHappen(t *testing.T) {
	b := newBed(t, storefault.Config{})
	for _, misuse := range []func(){
		func() { b.Script(storefault.Stale(1)) },
		func() { b.Script(storefault.Lag(1)) },
		func() { b.Script(storefault.Fault{}) },
		func() { b.ScriptSnapshots(storefault.LandLate) },
		func() { b.ScriptSnapshots(storefault.Double) },
		func() { b.ScriptSnapshots(storefault.Lag(1)) },
		func() { b.ScriptPages(storefault.Hang) },
		func() { b.ScriptPages(storefault.Stale(1)) },
	} {
		require.Panics(t, misuse)
	}
	require.NoError(t, b.save(t.Context(), "a"))
}

func TestHooksAndCounts(t *testing.T) {
	b := newBed(t, storefault.Config{})
	var calls []string
	b.Before(func(c storefault.Call) {
		calls = append(calls, fmt.Sprint("before ", c.Op, " ", c.N, " ", c.Fault))
		if c.Op == storefault.OpAppend && c.N == 2 { // somebody else is faster
			_, err := b.inner.Append(t.Context(), c.Records, c.Seen)
			require.NoError(t, err)
		}
	})
	b.After(func(c storefault.Call) {
		calls = append(calls, fmt.Sprint("after ", c.Op, " ", c.N, " ", eventstore.KindOf(c.Err)))
	})
	b.Script(storefault.LoseAnswer)
	b.kind(eventstore.Ambiguous, b.save(t.Context(), "a"))
	b.kind(eventstore.Conflict, b.save(t.Context(), "b"))
	_, err := b.Snapshot(t.Context(), eventstore.Part{Query: consistency.All()})
	require.NoError(t, err)
	_, err = b.Page(t.Context(), consistency.All(), consistency.Position{}, 0)
	require.NoError(t, err)
	require.NoError(t, b.Wait(t.Context(), consistency.Position{}))
	require.Equal(t, []string{
		"before append 1 lose answer", "after append 1 ambiguous", "before append 2 pass", "after append 2 conflict",
		"before snapshot 1 pass", "after snapshot 1 ", "before page 1 pass", "after page 1 ", "before wait 1 pass", "after wait 1 ",
	}, calls)
	require.Equal(t, storefault.Counts{Appends: 2, Snapshots: 1, Pages: 1, Waits: 1, Faults: map[string]int{"lose answer": 1}}, b.Counts())
	require.Equal(t, 4, b.Counts().Calls())

	b.Before(nil)
	b.After(nil)
	require.NoError(t, b.save(t.Context(), "c"))
	require.Len(t, calls, 10)
}
