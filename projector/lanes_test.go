package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// laned is the configuration of tests with lanes.
func laned(lanes int) projector.Config {
	return projector.Config{Name: name.Projector, Events: codec, Lanes: lanes, Keys: projector.DataKeys("key")}
}

// oneByOne has an event in each transaction.
func oneByOne(c projector.Config) projector.Config {
	c.BatchSize = 1
	return c
}

// mixed are numbers 1 to n of each of several keys, interleaved at random.
func mixed(t testing.TB, r *rand.Rand, keys, n int) []event.Record {
	next := make([]int, keys)
	var out []event.Record
	for len(out) < keys*n {
		if k := r.IntN(keys); next[k] < n {
			next[k]++
			out = append(out, record(t, Added{fmt.Sprint("k", k), next[k]}))
		}
	}
	return out
}

// The order within a key is kept at 64 lanes with random delays.
func TestLanesKeepTheOrderOfEachKey(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			t.Log("seed", seed)
			store, m, d := memstore.New(), memtarget.New[string](), newDice(seed, 1)
			records := mixed(t, rand.New(rand.NewPCG(seed, 0)), 20, 20)
			at := appendAll(t, store, records...)
			p := projector.New(store, m, laned(64), func(ctx context.Context, x tx, e projector.Delivery) error {
				time.Sleep(d.upTo(20 * time.Millisecond))
				return add(ctx, x, e)
			})
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), at))
			run.stop(t)
			require.Equal(t, fold(records), values(m))
			s := stateOf(t, m)
			require.EqualValues(t, len(records), s.Applied)
			require.False(t, s.Marked, "marks below the checkpoint are dropped")
		})
	}
}

// Lanes are side by side: eight handlers of a second each take one second.
func TestLanesAreSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var at = appendAll(t, store, record(t, Added{"a", 1}))
		for k := range 7 {
			at = appendAll(t, store, record(t, Added{fmt.Sprint("b", k), 1}))
		}
		p := projector.New(store, m, laned(8), func(ctx context.Context, x tx, e projector.Delivery) error {
			time.Sleep(time.Second)
			return add(ctx, x, e)
		})
		began := time.Now()
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Less(t, time.Since(began), 1100*time.Millisecond)
		run.stop(t)
	})
}

// The checkpoint is the lowest unfinished, whatever is done beyond it.
func TestRuleCheckpointIsTheLowestUnfinished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		records := []event.Record{record(t, Added{"a", 1}), record(t, Added{"slow", 1}), record(t, Added{"b", 1}), record(t, Added{"c", 1})}
		at := appendAll(t, store, records...)
		hold := make(chan struct{})
		p := projector.New(store, m, oneByOne(laned(4)), func(ctx context.Context, x tx, e projector.Delivery) error {
			if e.Event.(Added).Key == "slow" {
				<-hold
			}
			return add(ctx, x, e)
		})
		run := start(t, p)
		time.Sleep(time.Second)
		require.Equal(t, records[0].ID, stateOf(t, m).Checkpoint.EventID)
		require.Equal(t, map[string]string{"a": ",1", "b": ",1", "c": ",1"}, values(m))
		require.True(t, stateOf(t, m).Marked)
		close(hold)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		require.Equal(t, fold(records), values(m))
	})
}

// A worker that ends in the middle repeats nothing and loses nothing, with any
// number of lanes afterwards.
func TestRuleWhatLanesHaveDoneIsNotRepeated(t *testing.T) {
	for _, after := range []int{1, 4} {
		bubble(t, func(t *testing.T) {
			store, m := memstore.New(), memtarget.New[string]()
			records := []event.Record{record(t, Added{"slow", 1}), record(t, Added{"b", 1}), record(t, Added{"b", 2}), record(t, Added{"c", 1})}
			at := appendAll(t, store, records...)
			ctx, cancel := context.WithCancel(context.Background())
			var world sync.WaitGroup
			world.Go(func() {
				_ = projector.New(store, m, oneByOne(laned(4)), func(ctx context.Context, x tx, e projector.Delivery) error {
					if e.Event.(Added).Key == "slow" {
						<-ctx.Done()
						return ctx.Err()
					}
					return add(ctx, x, e)
				}).Run(ctx)
			})
			time.Sleep(time.Second)
			cancel()
			world.Wait()
			require.True(t, stateOf(t, m).Checkpoint.Position.IsZero())
			require.Equal(t, map[string]string{"b": ",1,2", "c": ",1"}, values(m))
			p := projector.New(store, m, laned(after), add)
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), at))
			run.stop(t)
			require.Equal(t, fold(records), values(m))
			require.False(t, stateOf(t, m).Marked)
		})
	}
}

// A failing event stops the lanes, is tried in order, and they go on.
func TestLanesWithAFailingEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		records := mixed(t, rand.New(rand.NewPCG(1, 2)), 10, 10)
		at := appendAll(t, store, records...)
		tries := 0
		p := projector.New(store, m, laned(8), func(ctx context.Context, x tx, e projector.Delivery) error {
			if e.ID == records[50].ID {
				if tries++; tries < 4 {
					return errTest
				}
			}
			return add(ctx, x, e)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		require.Equal(t, fold(records), values(m))
		require.Equal(t, 4, tries)
	})
}

// Misuse is told at once.
func TestLanesAndParkingNeedKeys(t *testing.T) {
	store, m := memstore.New(), memtarget.New[string]()
	cfg := config()
	cfg.Lanes = 2
	require.ErrorIs(t, projector.New(store, m, cfg, add).Run(t.Context()), projector.ErrMisuse)
	cfg = config()
	cfg.Failures.Then = projector.Park
	require.ErrorIs(t, projector.New(store, m, cfg, add).Run(t.Context()), projector.ErrMisuse)
	cfg.Failures.Then = "explode"
	require.ErrorIs(t, projector.New(store, m, cfg, add).Run(t.Context()), projector.ErrMisuse)
	cfg = laned(2)
	var one projector.Target[tx] = struct{ projector.Target[tx] }{m}
	require.ErrorContains(t, projector.New(store, one, cfg, add).Run(t.Context()), "one transaction after the other")
}
