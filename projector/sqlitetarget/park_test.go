package sqlitetarget

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func position(n uint64) consistency.Position { return consistency.NewPosition(0, n) }

// parkedAt is an event at a position, put aside under keys.
func parkedAt(n uint64, keys ...string) projector.Parked {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return projector.Parked{
		Record: event.Record{
			ID: uuid.New(), Type: "Counted", Data: []byte(`{"key": "k", "n": 12345678901234567890}`), Position: position(n), Time: now.Add(-time.Hour),
			Metadata: event.Metadata{Command: "count", Version: 2, Custom: map[string]string{"who": "ada\x00"}},
		},
		Keys: keys, Failed: true, Attempts: 3, First: now.Add(-time.Minute), Last: now, Error: "no such \"thing\"", Since: now,
	}
}

// batches runs batches that leave the checkpoint where it is, under one claim.
func batches(t *testing.T, target *Target) func(func(projector.Batch[*Tx]) error) error {
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	return func(f func(projector.Batch[*Tx]) error) error {
		s, err := target.State(t.Context(), testName)
		require.NoError(t, err)
		return target.Apply(t.Context(), claim, s.Checkpoint, func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
			return s.Checkpoint, f(b)
		})
	}
}

func park(all ...projector.Parked) func(projector.Batch[*Tx]) error {
	return func(b projector.Batch[*Tx]) error {
		for _, p := range all {
			if err := b.Park(p); err != nil {
				return err
			}
		}
		return nil
	}
}

// A parked event comes back as it was given, whatever it is.
func TestParkedIsKeptWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target := open(t, path, 0)
	in := batches(t, target)
	full := parkedAt(1, "a", "b'\"ü")
	full.Due, full.Discard, full.Replay = time.UnixMicro(5).UTC(), "wrong", true
	full.Hold = true
	least := projector.Parked{Record: event.Record{Position: consistency.NewPosition(7, 1)}, Keys: []string{"b"}}
	require.NoError(t, in(park(full, least)))
	for _, reader := range []*Target{target, open(t, path, 0)} {
		parked, err := reader.Parked(t.Context(), testName, projector.ParkedQuery{})
		require.NoError(t, err)
		require.Equal(t, []projector.Parked{full, least}, parked)
	}
	require.NoError(t, in(func(b projector.Batch[*Tx]) error {
		for _, one := range []func() (projector.Parked, bool, error){
			func() (projector.Parked, bool, error) { return b.FirstParked("a") },
			func() (projector.Parked, bool, error) { return b.ParkedAt(position(1)) },
		} {
			p, found, err := one()
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, full, p)
		}
		return nil
	}))
	require.ErrorContains(t, in(park(parkedAt(0, "a"))), "needs a position")
	require.ErrorContains(t, in(park(parkedAt(1))), "a key")
}

// What a batch asks for is true at each step, with the keys in its memory and
// with too many for it.
func TestParkedKeysInsideABatch(t *testing.T) {
	for _, many := range []int{0, maxLoaded + 1} {
		target := fresh(t)
		in := batches(t, target)
		for i := range many {
			require.NoError(t, in(park(parkedAt(uint64(1000+i), fmt.Sprint("other", i)))))
			if i%50 == 0 {
				require.Equal(t, i+1, stateOf(t, target).Parked)
			}
		}
		is := func(b projector.Batch[*Tx], want bool, keys ...string) {
			t.Helper()
			got, err := b.IsParked(keys)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		first := func(b projector.Batch[*Tx], key string, want uint64) {
			t.Helper()
			p, found, err := b.FirstParked(key)
			require.NoError(t, err)
			require.Equal(t, want > 0, found)
			require.Equal(t, position(want), p.Record.Position)
		}
		work := func(b projector.Batch[*Tx]) error {
			is(b, false, "a", "b")
			require.NoError(t, park(parkedAt(20, "a"), parkedAt(10, "a", "b"), parkedAt(30, "b"))(b))
			is(b, true, "x", "a")
			is(b, true, "b", "x")
			first(b, "a", 10)
			first(b, "c", 0)
			require.NoError(t, b.Park(parkedAt(10, "c"))) // other keys in the place of both
			first(b, "a", 20)
			first(b, "b", 30)
			first(b, "c", 10)
			require.NoError(t, b.Settle(position(20), projector.Applied, ""))
			is(b, false, "a")
			require.ErrorIs(t, b.Settle(position(20), projector.Applied, ""), projector.ErrNotParked)
			require.ErrorIs(t, b.Settle(position(21), projector.Applied, ""), projector.ErrNotParked)
			require.ErrorContains(t, b.Settle(position(10), "thrown", ""), "no outcome")
			is(b, true, "b")
			is(b, true, "c")
			return nil
		}
		sorry := errors.New("after all")
		require.Equal(t, sorry, in(func(b projector.Batch[*Tx]) error {
			require.NoError(t, work(b))
			return sorry
		}))
		require.Equal(t, many, stateOf(t, target).Parked, "nothing of it is left")
		require.NoError(t, in(work))
		require.Equal(t, many+2, stateOf(t, target).Parked)
		require.NoError(t, in(func(b projector.Batch[*Tx]) error {
			is(b, false, "a")
			is(b, true, "b")
			is(b, true, "c")
			return nil
		}))
	}
}

func TestParkedQueries(t *testing.T) {
	target := fresh(t)
	in := batches(t, target)
	early, late := time.Unix(100, 0).UTC(), time.Unix(200, 0).UTC()
	var all []projector.Parked
	for i := range uint64(120) {
		p := parkedAt(i+1, []string{"even", "odd"}[i%2], "all")
		if i%40 == 7 {
			p.Due = late
		}
		if i == 90 {
			p.Due = early
		}
		all = append(all, p)
	}
	require.NoError(t, in(park(all...)))
	require.NoError(t, in(func(b projector.Batch[*Tx]) error {
		return errors.Join(b.Settle(position(50), projector.Applied, ""), b.Settle(position(60), projector.Discarded, "why not"), b.Settle(position(61), projector.Discarded, "so"))
	}))
	list := func(q projector.ParkedQuery) (at []uint64) {
		t.Helper()
		parked, err := target.Parked(t.Context(), testName, q)
		require.NoError(t, err)
		for _, p := range parked {
			_, n := p.Record.Position.Parts()
			at = append(at, n)
			require.Equal(t, q.Settled, !p.Settled.IsZero())
		}
		return at
	}
	require.Len(t, list(projector.ParkedQuery{}), 100)
	require.Len(t, list(projector.ParkedQuery{Limit: 1000}), 117)
	require.Equal(t, []uint64{47, 48, 49, 51}, list(projector.ParkedQuery{After: position(46), UpTo: position(51)}))
	require.Equal(t, []uint64{47, 49, 51}, list(projector.ParkedQuery{Key: "even", After: position(46), UpTo: position(51)}))
	require.Equal(t, []uint64{8, 48, 88, 91}, list(projector.ParkedQuery{DueBy: late}))
	require.Equal(t, []uint64{8, 48}, list(projector.ParkedQuery{DueBy: late, Limit: 2}))
	require.Equal(t, []uint64{88, 91}, list(projector.ParkedQuery{DueBy: late, After: position(48)}))
	require.Equal(t, []uint64{91}, list(projector.ParkedQuery{DueBy: early}))
	require.Empty(t, list(projector.ParkedQuery{DueBy: early.Add(-time.Second)}))
	require.Equal(t, []uint64{8, 48, 88}, list(projector.ParkedQuery{DueBy: late, Key: "odd"}))
	require.Equal(t, []uint64{50, 60, 61}, list(projector.ParkedQuery{Settled: true}))
	require.Equal(t, []uint64{50, 60}, list(projector.ParkedQuery{Settled: true, Key: "odd"}))
	require.Empty(t, list(projector.ParkedQuery{Settled: true, Key: "od"}))
	require.Empty(t, list(projector.ParkedQuery{Key: "od"}))
	require.Equal(t, early, stateOf(t, target).Due)

	settled, err := target.Parked(t.Context(), testName, projector.ParkedQuery{Settled: true, After: position(50), Limit: 1})
	require.NoError(t, err)
	require.Less(t, time.Since(settled[0].Settled), time.Minute)
	settled[0].Settled = time.Time{}
	want := all[59]
	want.Outcome, want.Reason = projector.Discarded, "why not"
	require.Equal(t, []projector.Parked{want}, settled)

	none, err := target.Parked(t.Context(), projector.Name{Projector: "never"}, projector.ParkedQuery{})
	require.NoError(t, err)
	require.Empty(t, none)
}

// Words of operators, from a process without claims, wake who waits.
func TestAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target, other := open(t, path, 0), open(t, path, 0)
	in := batches(t, target)
	require.NoError(t, in(park(parkedAt(3, "a"), parkedAt(4, "a"))))
	ask := func(at consistency.Position, discard string) {
		t.Helper()
		before, err := target.State(t.Context(), testName)
		require.NoError(t, err)
		woken := make(chan error, 1)
		go func() { woken <- target.Wait(t.Context(), testName, before) }()
		require.NoError(t, other.Ask(t.Context(), testName, at, discard))
		require.NoError(t, <-woken)
		after, err := target.State(t.Context(), testName)
		require.NoError(t, err)
		require.Equal(t, before.Asked+1, after.Asked)
	}
	parked := func() projector.Parked {
		all, err := other.Parked(t.Context(), testName, projector.ParkedQuery{Limit: 1})
		require.NoError(t, err)
		return all[0]
	}
	ask(consistency.Position{}, "")
	require.Zero(t, stateOf(t, target).Due)
	ask(position(3), "no use")
	require.Equal(t, 1970, stateOf(t, target).Due.Year())
	require.Equal(t, "no use", parked().Discard)
	ask(position(3), "")
	require.Empty(t, parked().Discard)
	require.Equal(t, 1970, parked().Due.Year())
	require.NoError(t, in(func(b projector.Batch[*Tx]) error { return b.Settle(position(3), projector.Applied, "") }))
	for _, n := range []uint64{3, 5} {
		require.ErrorIs(t, other.Ask(t.Context(), testName, position(n), ""), projector.ErrNotParked)
	}
	require.EqualValues(t, 3, stateOf(t, target).Asked)
	require.Zero(t, stateOf(t, target).Due)

	claim := projector.Claim{Name: testName, Epoch: 1}
	failure := projector.Failure{Position: position(9), Attempts: 1, Hold: true}
	require.NoError(t, target.Fail(t.Context(), claim, failure))
	require.ErrorIs(t, other.Ask(t.Context(), testName, position(9), ""), projector.ErrNotParked)
	ask(position(9), "off with it")
	failure.Attempts = 2 // by a worker that has not heard of it
	require.NoError(t, target.Fail(t.Context(), claim, failure))
	failure.Discard = "off with it"
	require.Equal(t, failure, stateOf(t, target).Failure)
	failure = projector.Failure{Position: position(10), Attempts: 1}
	require.NoError(t, target.Fail(t.Context(), claim, failure))
	require.Equal(t, failure, stateOf(t, target).Failure)

	never := projector.Name{Projector: "never", Boundary: "claimed"}
	require.ErrorIs(t, other.Ask(t.Context(), never, position(3), ""), projector.ErrNotParked)
	require.NoError(t, other.Ask(t.Context(), never, consistency.Position{}, ""))
	s, err := target.State(t.Context(), never)
	require.NoError(t, err)
	require.Equal(t, projector.State{Asked: 1}, s)
	claim, err = target.Claim(t.Context(), never)
	require.NoError(t, err)
	require.EqualValues(t, 1, claim.Epoch)
}

func TestMarksAndCounts(t *testing.T) {
	target := fresh(t)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	require.NoError(t, target.Apply(t.Context(), claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		for i, id := range ids {
			require.NoError(t, b.Done(id, position(uint64(10*(i+1)))))
		}
		b.Count(2, 0)
		b.Count(0, 1)
		return at(0), nil
	}))
	require.Equal(t, projector.State{Epoch: 1, Held: true, Applied: 2, Skipped: 1, Marked: true}, stateOf(t, target), "counted, not moved")
	require.NoError(t, target.Apply(t.Context(), claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		b.Count(1, 1)
		require.NoError(t, b.Forget(position(20)))
		for i, id := range ids {
			seen, err := b.Seen(id)
			require.NoError(t, err)
			require.Equal(t, i == 2, seen)
		}
		return at(1), nil
	}))
	s, err := target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Less(t, time.Since(s.Moved), time.Minute)
	moved := s.Moved
	require.NoError(t, target.Apply(t.Context(), claim, at(1), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		b.Count(5, 0)
		return at(1), b.Forget(position(30))
	}))
	s, err = target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, projector.State{Checkpoint: at(1), Epoch: 1, Held: true, Applied: 8, Skipped: 2, Moved: moved}, s)
}
