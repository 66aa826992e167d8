package projector_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// Every replica runs the projector, one is active; the next one is there at
// once when it stops.
func TestStandbyTakesOverAtOnceAfterACleanStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var inside, active atomic.Int32
		runs := map[int32]*running{}
		var p *projector.Projector[tx]
		for i := range int32(4) {
			p = projector.New(store, m, config(), func(ctx context.Context, x tx, d projector.Delivery) error {
				defer inside.Add(-1)
				if inside.Add(1) > 1 {
					t.Error("two replicas are active")
				}
				active.Store(i)
				return add(ctx, x, d)
			})
			runs[i] = start(t, p)
		}
		began := time.Now()
		for i := range 4 {
			require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", i + 1}))))
			require.EqualValues(t, i+1, stateOf(t, m).Epoch)
			runs[active.Load()].stop(t)
			delete(runs, active.Load())
		}
		require.Empty(t, runs)
		require.Zero(t, time.Since(began))
		require.Equal(t, list(4), values(m)["a"])
		require.False(t, stateOf(t, m).Held)
	})
}

// A halted worker that is stopped hands over as well.
func TestStandbyTakesOverFromAHaltedOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		last := appendAll(t, store, numbers(t, "a", 2)...)
		old := start(t, projector.New(store, m, config(), func(context.Context, tx, projector.Delivery) error { return errTest }))
		synctest.Wait()
		p := projector.New(store, m, config(), add)
		corrected := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), last), projector.ErrHalted)
		began := time.Now()
		old.stop(t)
		synctest.Wait() // the new owner has tried, so nothing is halted
		require.NoError(t, p.WaitFor(short(t), last))
		require.Zero(t, time.Since(began))
		corrected.stop(t)
	})
}

// A worker that was frozen while it was idle is a standby when it wakes up.
func TestWokenIdleWorkerStandsBy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
		cfg := config()
		cfg.Logger = book.logger()
		p := projector.New(store, m, cfg, add)
		first := start(t, p)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 1}))))
		m.Freeze(projector.Claim{Name: name, Epoch: 1})
		second := start(t, p)
		time.Sleep(11 * time.Second)
		require.EqualValues(t, 2, stateOf(t, m).Epoch)
		for i := range 5 {
			require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", i + 2}))))
		}
		synctest.Wait()
		require.Len(t, book.with("took over"), 1)
		second.stop(t)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 7}))))
		require.Equal(t, list(7), values(m)["a"])
		first.stop(t)
	})
}

func TestWaitForEndsAlways(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		p := projector.New(store, m, config(), add)
		require.NoError(t, p.WaitFor(context.Background(), consistency.Position{}), "zero is always applied")
		last := appendAll(t, store, numbers(t, "a", 2)...)
		for _, c := range []struct {
			ctx  func() (context.Context, context.CancelFunc)
			want error
			took time.Duration
		}{
			{func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }, context.DeadlineExceeded, 10 * time.Second},
			{func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(context.Background(), time.Hour)
			}, context.DeadlineExceeded, time.Hour},
			{func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			}, context.Canceled, time.Second},
		} {
			ctx, cancel := c.ctx()
			began := time.Now()
			err := p.WaitFor(ctx, last)
			require.ErrorIs(t, err, projector.ErrNotYet)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.took, time.Since(began))
			require.Contains(t, err.Error(), "call Run")
			cancel()
		}
	})
}

// WaitFor works on a replica that never runs, also when the active one ends
// while it waits and another one goes on.
func TestWaitForOnAnotherReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		reader := projector.New(store, m, config(), func(context.Context, tx, projector.Delivery) error {
			t.Error("the reader's handler is called")
			return nil
		})
		in := make(chan struct{}, 1)
		book, cfg := &logbook{}, config()
		cfg.Logger = book.logger()
		first := start(t, projector.New(store, m, cfg, func(ctx context.Context, _ tx, _ projector.Delivery) error {
			in <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}))
		last := appendAll(t, store, numbers(t, "a", 2)...)
		<-in
		waited := make(chan error, 1)
		go func() { waited <- reader.WaitFor(short(t), last) }()
		synctest.Wait()
		first.stop(t)
		require.Equal(t, projector.Failure{}, stateOf(t, m).Failure, "an end is no failure of the event")
		require.Empty(t, book.with("applied"))
		synctest.Wait()
		require.Empty(t, waited)
		second := start(t, projector.New(store, m, config(), add))
		require.NoError(t, <-waited)
		require.Equal(t, list(2), values(m)["a"])
		second.stop(t)
	})
}

// WaitFor goes on through trouble of the target, and says so when its time ends.
func TestWaitForThroughTroubleOfTheTarget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var down atomic.Bool
		down.Store(true)
		weak := &steps[tx]{m, func(_ context.Context, step string) error {
			if down.Load() {
				return errTest
			}
			return nil
		}}
		run := start(t, projector.New(store, m, config(), add))
		last := appendAll(t, store, numbers(t, "a", 2)...)
		p := projector.New[tx](store, weak, config(), add)
		err := p.WaitFor(t.Context(), last)
		require.ErrorIs(t, err, projector.ErrNotYet)
		require.Contains(t, err.Error(), errTest.Error())
		began := time.Now()
		time.AfterFunc(10*time.Minute, func() { down.Store(false) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, p.WaitFor(ctx, last))
		require.Less(t, time.Since(began), 10*time.Minute+2*time.Second, "it looks often: somebody waits")
		run.stop(t)
	})
}

func TestLag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		p := projector.New(store, m, config(), add)
		lag, err := p.Lag(t.Context())
		require.NoError(t, err)
		require.Equal(t, projector.Lag{}, lag)
		require.True(t, lag.CaughtUp())

		first := appendAll(t, store, record(t, Added{"a", 1}))
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), first))
		run.stop(t)
		time.Sleep(time.Second)
		last := appendAll(t, store, record(t, Strange{"a"}))
		lag, err = p.Lag(t.Context())
		require.NoError(t, err)
		require.Equal(t, projector.Lag{Checkpoint: first, Head: last, HeadTime: time.Now().UTC().Truncate(time.Microsecond), Moved: lag.Moved}, lag)
		require.Equal(t, time.Now().UTC().Truncate(time.Microsecond).Add(-time.Second), lag.Moved)
		require.False(t, lag.CaughtUp())
		run = start(t, p)
		require.NoError(t, p.WaitFor(short(t), last))
		lag, err = p.Lag(t.Context())
		require.NoError(t, err)
		require.True(t, lag.CaughtUp() && lag.Held)
		run.stop(t)
	})
}

// The connection is cut a hundred times: the model goes on, and the log is not
// flooded.
func TestTroubleOfTheStorePasses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m, book := newFakeLog(), memtarget.New[string](), &logbook{}
		cuts, down := 0, atomic.Bool{}
		log.broken = func(call string) error {
			if down.Load() {
				cuts++
				return fmt.Errorf("%s: %w", call, errTest)
			}
			return nil
		}
		cfg := config()
		cfg.Logger = book.logger()
		p := projector.New(log, m, cfg, add)
		down.Store(true)
		run := start(t, p)
		for i := range 100 {
			down.Store(true)
			last := log.add(record(t, Added{"a", i + 1}))
			time.Sleep(time.Minute)
			down.Store(false)
			require.NoError(t, p.WaitFor(short(t), last))
		}
		run.stop(t)
		require.Equal(t, list(100), values(m)["a"])
		require.Greater(t, cuts, 500, "it was down for a minute each time")
		lines := book.with(errTest.Error(), "level=WARN")
		require.InDelta(t, 100, len(lines), 40, "one line a minute")
		require.NotContains(t, strings.Join(lines[1:], ""), "times=1 ")
	})
}

// A hint that never comes costs the time of a poll, not the event.
func TestLostHintsCostAPoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deaf, m := &noHints{memstore.New()}, memtarget.New[string]()
		p := projector.New[tx](deaf, m, config(), add)
		run := start(t, p)
		synctest.Wait()
		began := time.Now()
		require.NoError(t, p.WaitFor(short(t), appendAll(t, deaf, record(t, Added{"a", 1}))))
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
		run.stop(t)
	})
}

type noHints struct{ eventstore.Store }

func (noHints) Wait(ctx context.Context, _ consistency.Position) error {
	<-ctx.Done()
	return ctx.Err()
}

// What is closed can never work again: that ends Run, and a waiter, with an error.
func TestClosedStoreOrTargetEndsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		p := projector.New(store, m, config(), add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 1}))))
		require.NoError(t, store.Close())
		require.ErrorIs(t, <-run.ended, eventstore.ErrClosed)
		require.False(t, stateOf(t, m).Held)

		for _, step := range []string{"claim", "state", "apply", "fail", "wait"} {
			store, m := memstore.New(), memtarget.New[string]()
			claim, err := m.Claim(t.Context(), name)
			require.NoError(t, err)
			if step != "wait" {
				require.NoError(t, m.Release(t.Context(), claim))
			}
			last := appendAll(t, store, record(t, Added{"a", 1}))
			closed := &steps[tx]{m, func(_ context.Context, s string) error {
				if s == step {
					return fmt.Errorf("%s: %w", s, projector.ErrClosed)
				}
				return nil
			}}
			p := projector.New[tx](store, closed, config(), func(context.Context, tx, projector.Delivery) error { return errTest })
			require.ErrorIs(t, p.Run(t.Context()), projector.ErrClosed, step)
			if step == "wait" || step == "state" {
				require.ErrorIs(t, p.WaitFor(t.Context(), last), projector.ErrClosed, step)
			}
		}
	})
}
