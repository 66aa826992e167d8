package effecttarget_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
)

// mortal is a keeper of a process that dies at its n-th save: right before it,
// or right after it. From then on nothing of the process reaches it.
type mortal struct {
	hooked
	dead  atomic.Bool
	saves atomic.Int64
	died  chan struct{}
}

func newMortal(k effecttarget.Keeper, at int64, landed bool) *mortal {
	m := &mortal{died: make(chan struct{})}
	die := func() error {
		if m.dead.CompareAndSwap(false, true) {
			close(m.died)
		}
		return errTest
	}
	m.Keeper = k
	m.load = func() error {
		if m.dead.Load() {
			return errTest
		}
		return nil
	}
	m.before = func([]byte) error {
		if m.dead.Load() || m.saves.Add(1) == at && !landed {
			return die()
		}
		return nil
	}
	m.after = func([]byte) error {
		if m.saves.Load() == at {
			return die()
		}
		return nil
	}
	return m
}

// Wherever the process dies, an effect is repeated only if it was done and its
// mark was not kept yet, and there is one such at most.
func TestCrashRepeatsOneEffectAtMost(t *testing.T) { synctest.Test(t, crashes) }

func crashes(t *testing.T) {
	const n = 6
	store, last := orders(t, n, 2)
	repeated := 0
	for _, landed := range []bool{false, true} {
		for at := int64(1); ; at++ {
			inner, world := effecttarget.Memory(), &effectLog{}
			handler := func(_ context.Context, _ tx, d projector.Delivery) error {
				world.add(d.Event.(Ordered).N)
				return nil
			}
			keeper := newMortal(inner, at, landed)
			first := effecttarget.New(keeper, short)
			end := run(t, projector.New(store, first, config(), handler))
			survived := false
			applied := make(chan error, 1)
			go func() {
				applied <- projector.New(store, first, config(), handler).WaitFor(within(t, 20*time.Second), last)
			}()
			select {
			case <-keeper.died:
				keeper.dead.Store(true)
			case err := <-applied:
				require.NoError(t, err)
				survived = true
			}
			before := len(world.all())
			end()
			_ = first.Close()
			if !survived {
				<-applied
			}
			require.LessOrEqual(t, len(world.all())-before, 1, "a dead process does nothing more")

			second := effecttarget.New(inner, short)
			p := projector.New(store, second, config(), handler)
			end = run(t, p)
			require.NoError(t, p.WaitFor(within(t, 20*time.Second), last))
			end()
			require.NoError(t, second.Close())
			twice := 0
			for i := range n {
				times := world.times()[i]
				require.Contains(t, []int{1, 2}, times, "death at save %d, landed %v: effect %d", at, landed, i)
				if times == 2 {
					twice++
				}
			}
			require.LessOrEqual(t, twice, 1, "death at save %d, landed %v: %v", at, landed, world.all())
			if landed {
				require.Zero(t, twice, "the mark was kept: death at save %d: %v", at, world.all())
			}
			repeated += twice
			if survived {
				break
			}
		}
	}
	require.Equal(t, n, repeated, "each effect has its crash window: it is there when the mark is not")
}

// With lanes it is one for each of them.
func TestCrashWithLanesRepeatsOneEffectPerLane(t *testing.T) { synctest.Test(t, crashesWithLanes) }

func crashesWithLanes(t *testing.T) {
	const n, lanes = 40, 4
	store, last := orders(t, n, 10)
	cfg := config()
	cfg.Lanes, cfg.Keys = lanes, projector.DataKeys("customer")
	for at := int64(2); at < 16; at += 3 {
		for _, landed := range []bool{false, true} {
			inner, world := effecttarget.Memory(), &effectLog{}
			handler := func(_ context.Context, _ tx, d projector.Delivery) error {
				world.add(d.Event.(Ordered).N)
				time.Sleep(time.Millisecond)
				return nil
			}
			keeper := newMortal(inner, at, landed)
			first := effecttarget.New(keeper, short)
			end := run(t, projector.New(store, first, cfg, handler))
			select {
			case <-keeper.died:
			case <-time.After(20 * time.Second):
				t.Fatal("it does not come to save ", at)
			}
			end()
			_ = first.Close()

			second := effecttarget.New(inner, short)
			p := projector.New(store, second, cfg, handler)
			end = run(t, p)
			require.NoError(t, p.WaitFor(within(t, 20*time.Second), last))
			end()
			require.NoError(t, second.Close())
			twice := 0
			for i := range n {
				times := world.times()[i]
				require.Contains(t, []int{1, 2}, times, "death at save %d: effect %d", at, i)
				twice += times - 1
			}
			require.LessOrEqual(t, twice, lanes, "death at save %d, landed %v: %v", at, landed, world.all())
		}
	}
}

// A keeper that is out of order for a while repeats nothing as long as the
// process lives: what could not be kept is kept in mind.
func TestOutageRepeatsNothing(t *testing.T) {
	for _, landed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const n = 10
			store, last := orders(t, n, 2)
			world, saves := &effectLog{}, atomic.Int64{}
			fail := func([]byte) error {
				if i := saves.Add(1); i > 3 && i%2 == 0 && i < 40 {
					return errTest
				}
				return nil
			}
			keeper := &hooked{Keeper: effecttarget.Memory()}
			if landed {
				keeper.after = fail
			} else {
				keeper.before = fail
			}
			target := effecttarget.New(keeper, effecttarget.Config{})
			p := projector.New(store, target, config(), func(_ context.Context, _ tx, d projector.Delivery) error {
				world.add(d.Event.(Ordered).N)
				return nil
			})
			end := run(t, p)
			require.NoError(t, p.WaitFor(within(t, 20*time.Second), last))
			end()
			require.NoError(t, target.Close())
			require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, world.all())
		})
	}
}
