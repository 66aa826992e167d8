package effecttarget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
)

func delivery(n uint64) projector.Delivery {
	return projector.Delivery{Record: event.Record{ID: id(n), Position: point(n).Position}}
}

// put is a batch of one event that sets a value.
func put(n uint64, value string) func(projector.Batch[upsertTx]) (projector.Checkpoint, error) {
	return func(b projector.Batch[upsertTx]) (projector.Checkpoint, error) {
		b.Tx().Put(delivery(n), "k", value)
		return point(n), nil
	}
}

// slow is a store that stands still before its first write.
type slow struct {
	*values
	reached, wake chan struct{}
}

func (s *slow) Upsert(ctx context.Context, key string, at pos, value string) error {
	close(s.reached)
	<-s.wake
	return s.values.Upsert(ctx, key, at, value)
}

// A worker stands still right before its write, is taken over, and writes when
// it wakes up: the newer value stays, because positions only move forward.
func TestWokenWorkerLeavesNewerValues(t *testing.T) {
	for _, loose := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			keeper, store := effecttarget.Memory(), newValues()
			store.loose = loose
			frozen := &slow{store, make(chan struct{}), make(chan struct{})}
			a := effecttarget.NewUpserts[string](keeper, frozen, effecttarget.Config{})
			b := effecttarget.NewUpserts[string](keeper, store, effecttarget.Config{})
			old, err := a.Claim(t.Context(), name)
			require.NoError(t, err)
			woken := make(chan error, 1)
			go func() { woken <- a.Apply(t.Context(), old, projector.Checkpoint{}, put(1, "older")) }()
			<-frozen.reached
			a.Freeze(name)
			time.Sleep(11 * time.Second)
			claim, err := b.Claim(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, b.Apply(t.Context(), claim, projector.Checkpoint{}, put(1, "older")))
			require.NoError(t, b.Apply(t.Context(), claim, point(1), put(2, "newer")))
			close(frozen.wake)
			require.ErrorIs(t, <-woken, projector.ErrTakenOver)
			value, _ := store.get("k")
			if loose { // a store without the guard shows what it is for
				require.Equal(t, "older", value)
			} else {
				require.Equal(t, "newer", value)
			}
			state, err := b.State(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, point(2), state.Checkpoint)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

// A late value does not come back over a tombstone either.
func TestLateValueStaysDeleted(t *testing.T) {
	store := newValues()
	target := effecttarget.NewUpserts[string](effecttarget.Memory(), store, effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, target.Apply(t.Context(), claim, projector.Checkpoint{}, func(b projector.Batch[upsertTx]) (projector.Checkpoint, error) {
		b.Tx().Put(delivery(3), "k", "3")
		b.Tx().Delete(delivery(5), "k")
		b.Tx().Put(delivery(4), "k", "4") // was parked
		return point(5), nil
	}))
	require.Equal(t, 1, store.writes, "the last of each key is written")
	require.NoError(t, target.Apply(t.Context(), claim, point(5), func(b projector.Batch[upsertTx]) (projector.Checkpoint, error) {
		b.Tx().Put(delivery(4), "k", "4")
		return point(5), nil
	}))
	_, found := store.get("k")
	require.False(t, found)
	err = target.Apply(t.Context(), claim, point(5), func(b projector.Batch[upsertTx]) (projector.Checkpoint, error) {
		b.Tx().Put(delivery(6), "k", "half of a handler")
		return point(6), errTest
	})
	require.ErrorIs(t, err, errTest)
	require.Equal(t, 1, store.writes, "nothing is written of a handler that fails")
}

// A worker that stood still for longer than its lease finds out before its next
// effect, not after it.
func TestWokenWorkerDoesNoFurtherEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := effecttarget.Memory()
		a, b := effecttarget.New(keeper, effecttarget.Config{}), effecttarget.New(keeper, effecttarget.Config{})
		old, err := a.Claim(t.Context(), name)
		require.NoError(t, err)
		err = a.Apply(t.Context(), old, projector.Checkpoint{}, func(batch projector.Batch[tx]) (projector.Checkpoint, error) {
			if err := batch.Done(id(1), point(1).Position); err != nil {
				return projector.Checkpoint{}, err
			}
			a.Freeze(name)
			time.Sleep(11 * time.Second)
			claim, err := b.Claim(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, b.Apply(t.Context(), claim, projector.Checkpoint{}, func(other projector.Batch[tx]) (projector.Checkpoint, error) {
				seen, err := other.Seen(id(1))
				require.True(t, seen)
				return point(2), err
			}))
			_, err = batch.Seen(id(2))
			require.ErrorIs(t, err, projector.ErrTakenOver)
			return point(2), err
		})
		require.ErrorIs(t, err, projector.ErrTakenOver)
		require.ErrorIs(t, a.Apply(t.Context(), old, projector.Checkpoint{}, func(projector.Batch[tx]) (projector.Checkpoint, error) {
			t.Error("the work of an older epoch was run")
			return point(2), nil
		}), projector.ErrTakenOver)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// An effect that is done is marked also when the projector's end came meanwhile.
func TestMarkIsKeptAfterTheEnd(t *testing.T) {
	target := effecttarget.New(effecttarget.Memory(), effecttarget.Config{})
	defer target.Close()
	claim, err := target.Claim(t.Context(), name)
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	require.NoError(t, target.Apply(ctx, claim, projector.Checkpoint{}, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
		end()
		return point(1), b.Done(id(1), point(1).Position)
	}))
	state, err := target.State(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, point(1), state.Checkpoint)
	require.True(t, state.Marked)
}
