package effecttarget_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
)

// Targets of one directory, as those of several processes are, take turns: each
// effect is there once, although the active one is stopped again and again.
func TestTargetsOfOneDirectoryTakeTurns(t *testing.T) {
	const n, targets = 60, 3
	dir, world := t.TempDir(), &effectLog{}
	store, last := orders(t, n, 5)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range targets {
		all.Go(func() {
			target := effecttarget.New(effecttarget.File(dir), effecttarget.Config{LookEvery: time.Millisecond})
			cfg := config()
			cfg.BatchSize = 5
			for ctx.Err() == nil {
				turn, end := context.WithCancel(ctx)
				left := 3 + i // effects, then somebody else's turn comes
				p := projector.New(store, target, cfg, func(_ context.Context, _ tx, d projector.Delivery) error {
					world.add(d.Event.(Ordered).N)
					if left--; left == 0 {
						end()
					}
					return nil
				})
				if err := p.Run(turn); err != nil {
					t.Error(err)
				}
				end()
			}
			if err := target.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	look := effecttarget.New(effecttarget.File(dir), effecttarget.Config{})
	err := projector.New(store, look, config(), func(context.Context, tx, projector.Delivery) error { return nil }).WaitFor(within(t, 20*time.Second), last)
	stop()
	all.Wait()
	require.NoError(t, err)
	state, err := look.State(context.Background(), name)
	require.NoError(t, err)
	require.False(t, state.Held, "all are released")
	require.NoError(t, look.Close())
	var want []int
	for i := range n {
		want = append(want, i)
	}
	require.Equal(t, want, world.all(), "once, in order")
}

// One heartbeat keeps all claims of a Target alive, and ends with the last one.
func TestHeartbeat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		open := effecttarget.New(effecttarget.Memory(), effecttarget.Config{}) // it is not closed: no goroutine may be left
		claim, err := open.Claim(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, open.Release(t.Context(), claim))

		keeper := &hooked{Keeper: effecttarget.Memory()}
		saves := atomic.Int64{}
		keeper.before = func([]byte) error { saves.Add(1); return nil }
		target := effecttarget.New(keeper, effecttarget.Config{Lease: 3 * time.Second})
		other := effecttarget.New(keeper, effecttarget.Config{})
		var claims []projector.Claim
		for i := range 5 {
			claim, err := target.Claim(t.Context(), projector.Name{Projector: fmt.Sprint(i), Boundary: "b"})
			require.NoError(t, err)
			claims = append(claims, claim)
		}
		saves.Store(0)
		time.Sleep(time.Minute + time.Millisecond)
		require.EqualValues(t, 5*60, saves.Load(), "each at a third of its lease")
		for _, c := range claims {
			_, err := other.Claim(t.Context(), c.Name)
			require.ErrorIs(t, err, projector.ErrHeld)
			require.NoError(t, target.Release(t.Context(), c))
		}
		_, err = other.Claim(t.Context(), claims[0].Name)
		require.NoError(t, err)
		saves.Store(0)
		_, err = target.Claim(t.Context(), claims[0].Name)
		require.ErrorIs(t, err, projector.ErrHeld)
		require.Zero(t, saves.Load(), "a claim in vain writes nothing")
		require.NoError(t, other.Release(t.Context(), projector.Claim{Name: claims[0].Name, Epoch: 2}))
		saves.Store(0)
		time.Sleep(time.Hour)
		require.Zero(t, saves.Load(), "nothing is left to renew")
		claim, err = target.Claim(t.Context(), claims[0].Name)
		require.NoError(t, err)
		require.EqualValues(t, 3, claim.Epoch)
		time.Sleep(time.Hour)
		require.NoError(t, target.Close())
		_, err = other.Claim(t.Context(), claim.Name)
		require.NoError(t, err, "Close gives back what is held")
		require.NoError(t, other.Close())
		require.NoError(t, other.Close())
	})
}

// shifted is a keeper whose clock is not this machine's.
type shifted struct{ effecttarget.Keeper }

func (s shifted) Load(ctx context.Context, n projector.Name) ([]byte, int64, time.Time, error) {
	doc, version, now, err := s.Keeper.Load(ctx, n)
	return doc, version, now.Add(-24 * time.Hour), err
}

// A lease is measured by the keeper's clock alone.
func TestLeaseIsTheKeepersTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keeper := shifted{effecttarget.Memory()}
		a, b := effecttarget.New(keeper, effecttarget.Config{}), effecttarget.New(keeper, effecttarget.Config{})
		_, err := a.Claim(t.Context(), name)
		require.NoError(t, err)
		a.Freeze(name)
		time.Sleep(9 * time.Second)
		_, err = b.Claim(t.Context(), name)
		require.ErrorIs(t, err, projector.ErrHeld)
		time.Sleep(time.Second)
		claim, err := b.Claim(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, b.Apply(t.Context(), claim, projector.Checkpoint{}, func(projector.Batch[tx]) (projector.Checkpoint, error) { return point(1), nil }))
		state, err := b.State(t.Context(), name)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(-24*time.Hour), state.Moved, time.Second)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// Whoever waits for another process sees its change with the next look, and
// looks are shared by all that wait.
func TestWaitLooksNowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keeper := &hooked{Keeper: effecttarget.Memory()}
		loads := atomic.Int64{}
		keeper.load = func() error { loads.Add(1); return nil }
		a, b := effecttarget.New(keeper, effecttarget.Config{}), effecttarget.New(keeper, effecttarget.Config{})
		seen, err := a.State(t.Context(), name)
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := a.Wait(t.Context(), name, seen); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second + 10*time.Millisecond)
		require.Less(t, loads.Load(), int64(250), "100 for the first look of each, then one in 50 ms, or few")
		began := time.Now()
		_, err = b.Claim(t.Context(), name)
		require.NoError(t, err)
		all.Wait()
		require.LessOrEqual(t, time.Since(began), 50*time.Millisecond)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// A claim that is saved after its caller has left is given back.
func TestClaimOfOneWhoLeftIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		keeper := &hooked{Keeper: effecttarget.Memory(), before: func([]byte) error { time.Sleep(time.Second); return nil }}
		target := effecttarget.New(keeper, effecttarget.Config{Lease: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := target.Claim(ctx, name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		state, err := target.State(t.Context(), name)
		require.NoError(t, err)
		require.False(t, state.Held)
		require.EqualValues(t, 1, state.Epoch)
		require.NoError(t, target.Close())
	})
}
