package memtarget_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

var name = projector.Name{Projector: "model", Boundary: "default"}

func at(n uint64) projector.Checkpoint {
	return projector.Checkpoint{Position: consistency.NewPosition(0, n)}
}

func TestTransactionSeesWhatItWrote(t *testing.T) {
	m := memtarget.New[string]()
	claim, err := m.Claim(t.Context(), name)
	require.NoError(t, err)
	write := func(from, to projector.Checkpoint, fail error, f func(x tx)) {
		err := m.Apply(t.Context(), claim, from, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
			f(b.Tx())
			return to, fail
		})
		require.ErrorIs(t, err, fail)
	}
	write(at(0), at(1), nil, func(x tx) {
		x.Put("a", "1")
		x.Put("b", "2")
		x.Put("c", "3")
		x.Delete("b")
		x.Delete("nothing")
	})
	require.Equal(t, map[string]string{"a": "1", "c": "3"}, maps.Collect(m.All()))
	change := func(x tx) {
		x.Delete("a")
		x.Put("c", "4")
		x.Put("d", "5")
		_, ok := x.Get("a")
		require.False(t, ok)
		require.Equal(t, map[string]string{"c": "4", "d": "5"}, maps.Collect(x.All()))
		for key := range x.All() {
			require.Equal(t, "c", key, "by key")
			break
		}
		require.Equal(t, 2, m.Len(), "readers see what is committed")
	}
	write(at(1), at(2), errors.New("no"), func(x tx) {
		change(x)
		write := maps.Collect(m.All())
		require.Equal(t, map[string]string{"a": "1", "c": "3"}, write)
	})
	require.Equal(t, map[string]string{"a": "1", "c": "3"}, maps.Collect(m.All()))
	write(at(1), at(2), nil, change)
	require.Equal(t, map[string]string{"c": "4", "d": "5"}, maps.Collect(m.All()))
}

// A lease is renewed for ever, unless its owner is frozen; thawed in time it
// holds on.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		m.Lease = time.Minute
		claim, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		held := func() bool {
			s, err := m.State(t.Context(), name)
			require.NoError(t, err)
			return s.Held
		}
		time.Sleep(24 * time.Hour)
		require.True(t, held())
		m.Freeze(projector.Claim{Name: name, Epoch: claim.Epoch - 1})
		m.Freeze(projector.Claim{Name: name, Epoch: claim.Epoch + 1})
		time.Sleep(24 * time.Hour)
		require.True(t, held(), "only the claim that is meant is frozen")
		m.Freeze(claim)
		time.Sleep(59 * time.Second)
		m.Freeze(claim) // still the same freeze
		require.True(t, held())
		m.Thaw(claim)
		time.Sleep(24 * time.Hour)
		require.True(t, held())
		m.Freeze(claim)
		time.Sleep(59 * time.Second)
		require.True(t, held())
		time.Sleep(time.Second)
		require.False(t, held())
		s, err := m.State(t.Context(), name)
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, m.Wait(t.Context(), name, s))
		require.Equal(t, 5*time.Second, time.Since(began), "nothing to wake for, and no spinning")
	})
}

// One who waits wakes when the lease of a frozen owner is over.
func TestWaitWakesAtTheEndOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		m.Lease = 3 * time.Second
		claim, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		m.Freeze(claim)
		s, err := m.State(t.Context(), name)
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, m.Wait(t.Context(), name, s))
		require.Equal(t, 3*time.Second, time.Since(began))
		_, err = m.Claim(t.Context(), name)
		require.NoError(t, err)
	})
}

// One who waits for the writer gives up with its context.
func TestApplyWaitsForOthersOnlyAsLongAsItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		go func() {
			other := projector.Name{Projector: "other", Boundary: "default"}
			claim, err := m.Claim(context.Background(), other)
			if err == nil {
				err = m.Apply(context.Background(), claim, at(0), func(projector.Batch[tx]) (projector.Checkpoint, error) {
					time.Sleep(time.Minute)
					return at(1), nil
				})
			}
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		claim, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		work := func(b projector.Batch[tx]) (projector.Checkpoint, error) { b.Tx().Put("a", "1"); return at(1), nil }
		require.ErrorIs(t, m.Apply(ctx, claim, at(0), work), context.DeadlineExceeded)
		require.Zero(t, m.Len())
		require.NoError(t, m.Apply(t.Context(), claim, at(0), work))
		require.Equal(t, 1, m.Len())
	})
}

// A commit whose context ended meanwhile is not made.
func TestApplyDoesNotCommitAfterTheEndOfItsContext(t *testing.T) {
	m := memtarget.New[string]()
	claim, err := m.Claim(t.Context(), name)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	err = m.Apply(ctx, claim, at(0), func(b projector.Batch[tx]) (projector.Checkpoint, error) {
		b.Tx().Put("a", "1")
		cancel()
		return at(1), nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, m.Len())
}
