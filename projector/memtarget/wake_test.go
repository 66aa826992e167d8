package memtarget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// Every change wakes those who wait, at once.
func TestChangesWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		g := next(t, m, "one")
		var claim projector.Claim
		began := time.Now()
		for _, change := range []func() error{
			func() (err error) { claim, err = m.Claim(t.Context(), name); return err },
			func() error {
				return m.Apply(t.Context(), claim, at(0), func(batch) (projector.Checkpoint, error) { return at(1), nil })
			},
			func() error { return m.Lane(t.Context(), claim, func(b batch) error { b.Count(1, 0); return nil }) },
			func() error { return m.Fail(t.Context(), claim, projector.Failure{Position: at(2).Position}) },
			func() error { return m.Ask(t.Context(), name, at(0).Position, "") },
			func() error { return m.Ask(t.Context(), name, at(2).Position, "why") },
			func() error { m.Freeze(claim); return nil },
			func() error { m.Thaw(claim); return nil },
			func() error { return m.Release(t.Context(), claim) },
			func() error { return g.Switch(t.Context(), ready) },
		} {
			s, err := m.State(t.Context(), name)
			require.NoError(t, err)
			woken := make(chan error)
			go func() { woken <- m.Wait(t.Context(), name, s) }()
			synctest.Wait()
			require.NoError(t, change())
			require.NoError(t, <-woken)
		}
		require.Zero(t, time.Since(began))
	})
}

// A word without a reason is not about the failure: the zero position is.
func TestAskForAnotherTryOfTheFailure(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	require.NoError(t, m.Fail(t.Context(), claim, projector.Failure{Position: at(2).Position}))
	require.ErrorIs(t, m.Ask(t.Context(), name, at(2).Position, ""), projector.ErrNotParked)
}
