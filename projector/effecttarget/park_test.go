package effecttarget_test

import (
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func parked(n uint64) projector.Parked {
	return projector.Parked{Record: event.Record{ID: id(n), Type: "T", Data: []byte(`{ not JSON`), Position: point(n).Position}, Keys: []string{"k"}, Failed: true}
}

// batch runs a batch that leaves the checkpoint where it is.
func batch(t *testing.T, target *effecttarget.Target, claim projector.Claim, work func(projector.Batch[tx]) error) error {
	t.Helper()
	state, err := target.State(t.Context(), claim.Name)
	require.NoError(t, err)
	return target.Apply(t.Context(), claim, state.Checkpoint, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
		return state.Checkpoint, work(b)
	})
}

func TestParkHasRoomForSoMany(t *testing.T) {
	target := effecttarget.New(effecttarget.Memory(), effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	park := func(from, to uint64) error {
		return batch(t, target, claim, func(b projector.Batch[tx]) error {
			for n := from; n <= to; n++ {
				if err := b.Park(parked(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, park(1, 999))
	require.ErrorIs(t, park(1000, 1001), effecttarget.ErrParkFull)
	require.NoError(t, park(1000, 1000))
	require.NoError(t, park(5, 7), "an exchange needs no room")
	require.ErrorIs(t, park(1001, 1001), effecttarget.ErrParkFull)
	require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error {
		require.NoError(t, b.Settle(point(1).Position, projector.Discarded, "why"))
		return b.Park(parked(1001))
	}))
	for n := uint64(2); n <= 1001; n++ {
		require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error {
			return b.Settle(point(n).Position, projector.Applied, "")
		}))
	}
	settled, err := target.Parked(t.Context(), name, projector.ParkedQuery{Settled: true, Limit: 5000})
	require.NoError(t, err)
	require.Len(t, settled, 1000, "the last ones")
	require.Equal(t, id(2), settled[0].Record.ID)
	require.Equal(t, `{ not JSON`, string(settled[0].Record.Data), "to the byte")
}

// An operator's word that comes while a batch runs is not undone by it.
func TestWordDuringABatchStays(t *testing.T) {
	keeper := effecttarget.Memory()
	target, other := effecttarget.New(keeper, effecttarget.Config{}), effecttarget.New(keeper, effecttarget.Config{})
	defer target.Close()
	defer other.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error { return b.Park(parked(1)) }))
	require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error {
		p, found, err := b.ParkedAt(point(1).Position)
		require.True(t, found)
		require.NoError(t, err)
		require.NoError(t, other.Ask(t.Context(), name, point(1).Position, "no use"))
		p.Attempts, p.Due = 7, time.Now().Add(time.Hour)
		return b.Park(p)
	}))
	list, err := target.Parked(t.Context(), name, projector.ParkedQuery{DueBy: time.Now()})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "no use", list[0].Discard)
	require.Equal(t, 7, list[0].Attempts)
}

// A mark and what is parked with it are one save.
func TestMarkAndParkAreOneSave(t *testing.T) {
	keeper := &hooked{Keeper: effecttarget.Memory()}
	target := effecttarget.New(keeper, effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	err = batch(t, target, claim, func(b projector.Batch[tx]) error {
		require.NoError(t, b.Park(parked(1)))
		require.NoError(t, b.Done(id(1), point(1).Position))
		return errTest
	})
	require.ErrorIs(t, err, errTest)
	state, err := target.State(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, 1, state.Parked)
	require.True(t, state.Marked)
}

// Marks behind the checkpoint are bounded, those before it are not.
func TestMarksAreBounded(t *testing.T) {
	target := effecttarget.NewUpserts[string](effecttarget.Memory(), newValues(), effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	mark := func(from, to projector.Checkpoint, ids ...uint64) {
		require.NoError(t, target.Apply(t.Context(), claim, from, func(b projector.Batch[upsertTx]) (projector.Checkpoint, error) {
			for _, n := range ids {
				require.NoError(t, b.Done(id(n), point(n).Position))
			}
			return to, nil
		}))
	}
	many := func(from, to uint64) (ids []uint64) {
		for n := from; n <= to; n++ {
			ids = append(ids, n)
		}
		return ids
	}
	seen := func(at projector.Checkpoint, n uint64) (seen bool) {
		require.NoError(t, target.Apply(t.Context(), claim, at, func(b projector.Batch[upsertTx]) (_ projector.Checkpoint, err error) {
			seen, err = b.Seen(id(n))
			return at, err
		}))
		return seen
	}
	mark(projector.Checkpoint{}, projector.Checkpoint{}, many(1, 2500)...)
	require.True(t, seen(projector.Checkpoint{}, 1), "it is ahead of the checkpoint")
	mark(projector.Checkpoint{}, point(2400), 2501)
	mark(point(2400), point(2400), 2502)
	for n, want := range map[uint64]bool{1: false, 1400: false, 1401: true, 2400: true, 2401: true, 2502: true} {
		require.Equal(t, want, seen(point(2400), n), "mark %d", n)
	}
}

func TestKey(t *testing.T) {
	d := projector.Delivery{Record: event.Record{ID: uuid.MustParse("11111111-2222-4333-8444-555555555555"), Position: consistency.NewPosition(0, 1)}}
	keys := map[string]bool{}
	for _, n := range []projector.Name{{Projector: "a", Boundary: "bc"}, {Projector: "ab", Boundary: "c"}} {
		target := effecttarget.New(effecttarget.Memory(), effecttarget.Config{})
		claim, err := target.Claim(t.Context(), n)
		require.NoError(t, err)
		require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error {
			for _, key := range []string{b.Tx().Key(d), b.Tx().Key(d, "x"), b.Tx().Key(d, "x", "y"), b.Tx().Key(d, "xy")} {
				require.Len(t, key, 36)
				require.False(t, keys[key])
				keys[key] = true
			}
			require.Equal(t, b.Tx().Key(d), b.Tx().Key(d))
			return nil
		}))
		require.NoError(t, target.Close())
	}
	require.True(t, keys["5a33f492-4190-510d-8f75-e292e9d7ac8a"], "it never changes: %v", keys)
}

// What a Target has in mind is never the last word: others may have been there.
func TestWordAboutWhatAnotherHasParked(t *testing.T) {
	keeper := effecttarget.Memory()
	target, other := effecttarget.New(keeper, effecttarget.Config{}), effecttarget.New(keeper, effecttarget.Config{})
	defer target.Close()
	defer other.Close()
	require.NoError(t, other.Ask(t.Context(), name, consistency.Position{}, ""))
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error { return b.Park(parked(1)) }))
	require.NoError(t, other.Ask(t.Context(), name, point(1).Position, "no use"))
	list, err := target.Parked(t.Context(), name, projector.ParkedQuery{})
	require.NoError(t, err)
	require.Equal(t, "no use", list[0].Discard)
	require.NoError(t, target.Apply(t.Context(), claim, projector.Checkpoint{}, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
		p, _, err := b.ParkedAt(point(1).Position)
		require.Equal(t, "no use", p.Discard, "a batch sees what Parked has shown")
		return projector.Checkpoint{}, err
	}))
}

// Marks are dropped together with the checkpoint that makes them needless.
func TestForgetComesWithTheCheckpoint(t *testing.T) {
	target := effecttarget.New(effecttarget.Memory(), effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	forget := func(fail error) error {
		return target.Apply(t.Context(), claim, projector.Checkpoint{}, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
			for n := uint64(1); n <= 3; n++ {
				require.NoError(t, b.Done(id(n), point(n).Position))
				require.NoError(t, b.Forget(point(2).Position))
			}
			return point(2), fail
		})
	}
	seen := func(n uint64) (seen bool) {
		require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) (err error) {
			seen, err = b.Seen(id(n))
			return err
		}))
		return seen
	}
	require.ErrorIs(t, forget(errTest), errTest)
	require.True(t, seen(1), "the checkpoint has not passed it")
	require.NoError(t, forget(nil))
	require.False(t, seen(1))
	require.True(t, seen(3))
}

// What is done again after a lost answer is counted once.
func TestLostAnswerCountsOnce(t *testing.T) {
	keeper := &hooked{Keeper: effecttarget.Memory()}
	target := effecttarget.New(keeper, effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	lose := func(work func(projector.Batch[tx]) error) {
		keeper.after = func([]byte) error { keeper.after = nil; return errTest }
		require.ErrorIs(t, batch(t, target, claim, work), errTest)
	}
	lose(func(b projector.Batch[tx]) error {
		b.Count(1, 0)
		return b.Done(id(1), point(1).Position)
	})
	require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error { return b.Park(parked(2)) }))
	lose(func(b projector.Batch[tx]) error {
		b.Count(1, 0)
		return b.Settle(point(2).Position, projector.Applied, "")
	})
	require.NoError(t, batch(t, target, claim, func(b projector.Batch[tx]) error {
		seen, err := b.Seen(id(1))
		require.True(t, seen)
		return err
	}))
	state, err := target.State(t.Context(), name)
	require.NoError(t, err)
	require.EqualValues(t, 2, state.Applied)
	require.Zero(t, state.Parked)
}
