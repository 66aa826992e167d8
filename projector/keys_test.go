package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Keys are the texts that stand at the top of the raw data, each with its name.
func TestDataKeys(t *testing.T) {
	keys := projector.DataKeys("a", "b", "missing", "number", "deep")
	r := event.Record{Data: []byte(`{"number":1,"b":"two","a":"one","deep":{"a":"x"},"c":"three"}`)}
	require.Equal(t, []string{"a=one", "b=two"}, keys.Of(r))
	require.Equal(t, []string{projector.DataKey("a", "one"), projector.DataKey("b", "two")}, keys.Of(r))
	require.Empty(t, keys.Of(event.Record{Data: []byte(`{}`)}))
	require.Empty(t, projector.DataKeys().Of(r))
}

// Keys are kept in order, none twice, and what not every target can keep as its
// hash; whoever asks by a key asks by the same one. What a KeyFunc gives stays as
// it is.
func TestKeysAsTheyAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		long := strings.Repeat("k", 300)
		given := []string{"b", long, "a", "b", "nul\x00", "\xff", strings.Repeat("k", 256)}
		was := append([]string(nil), given...)
		cfg := parks()
		cfg.Keys = projector.KeyFunc(func(r event.Record) []string {
			if keysOf(r)[0] == "other" {
				return []string{"other"}
			}
			return given
		})
		p := projector.New(store, m, cfg, c.handle)
		run := start(t, p)
		at := appendAll(t, store, record(t, Added{"x", 1}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.Equal(t, was, given)
		list, err := p.Parked(t.Context(), projector.ParkedQuery{})
		require.NoError(t, err)
		require.Len(t, list[0].Keys, 6)
		require.IsIncreasing(t, list[0].Keys)
		require.Contains(t, list[0].Keys, was[6])
		for _, key := range list[0].Keys {
			require.LessOrEqual(t, len(key), 256)
		}
		for _, key := range was {
			list, err := p.Parked(t.Context(), projector.ParkedQuery{Key: key})
			require.NoError(t, err)
			require.Len(t, list, 1, "%.20q", key)
			require.ErrorIs(t, p.WaitFor(short(t), at, key), projector.ErrParked, "%.20q", key)
		}
		require.NoError(t, p.WaitFor(short(t), at, "other"))
		c.heal(1)
		asked, err := p.Retry(t.Context(), long)
		require.NoError(t, err)
		require.Equal(t, 1, asked)
		require.NoError(t, p.WaitFor(short(t), at, long))
		run.stop(t)
	})
}

// A KeyFunc that gives the same slice each time is not written to.
func TestKeysOfLanesAreNotShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shared := make([]string, 1, 8)
		shared[0] = "all"
		log, m := newFakeLog(numbers(t, "a", 20)...), memtarget.New[string]()
		cfg := laned(4)
		cfg.Keys = projector.KeyFunc(func(event.Record) []string { return shared })
		p := projector.New(log, m, cfg, add)
		run := start(t, p)
		all := log.all()
		require.NoError(t, p.WaitFor(short(t), all[19].Position))
		run.stop(t)
		require.Equal(t, fold(all), values(m))
		require.Equal(t, []string{"all", "", "", "", "", "", "", ""}, shared[:8])
	})
}

// Keys of the data are looked for among the parked ones in a way of their own,
// which must not be another one: whatever is parked, by this worker or an earlier
// one, by these keys or others, what belongs to it waits, and follows in order.
func TestDataKeysParkAlike(t *testing.T) {
	for seed := range uint64(40) {
		bubble(t, func(t *testing.T) {
			t.Log("seed", seed)
			d, store, m := newDice(seed, 0), memstore.New(), memtarget.New[string]()
			records := mixed(t, rand.New(rand.NewPCG(seed, 1)), 4, 10)
			at := appendAll(t, store, records...)
			sick := map[uuid.UUID]bool{}
			for range 3 {
				sick[records[d.below(len(records))].ID] = true
			}
			var healed atomic.Bool
			handle := func(ctx context.Context, x tx, e projector.Delivery) error {
				if sick[e.ID] && !healed.Load() {
					return errTest
				}
				return add(ctx, x, e)
			}
			keys := projector.DataKeys("key")
			for i := 0; ; i++ {
				cfg := config()
				cfg.BatchSize, cfg.Keys = 1+d.below(5), keys
				if i == 0 && d.permille(500) { // an earlier program parked by other keys
					cfg.Keys = projector.KeyFunc(func(r event.Record) []string { return append(keys.Of(r), fmt.Sprint("sick: ", sick[r.ID])) })
				}
				cfg.Failures = projector.Policy{Then: projector.Park, Attempts: 1}
				healed.Store(i == 2)
				n := 0
				ctx, end := context.WithCancel(t.Context())
				p := projector.New(store, m, cfg, func(ctx context.Context, x tx, e projector.Delivery) error {
					if n++; i < 2 && n > 8+d.below(8) {
						end() // in the middle
					}
					return handle(ctx, x, e)
				})
				ended := make(chan error)
				go func() { ended <- p.Run(ctx) }()
				if i == 2 {
					synctest.Wait()
					_, err := p.Retry(t.Context())
					require.NoError(t, err)
					require.NoError(t, p.WaitFor(short(t), at))
					end()
					require.NoError(t, <-ended)
					break
				}
				synctest.Wait()
				end()
				require.NoError(t, <-ended)
				for key, list := range values(m) {
					require.True(t, strings.HasPrefix(fold(records)[key], list), "%s: %s", key, list)
				}
			}
			require.Equal(t, fold(records), values(m))
		})
	}
}

// A key that is too long is parked as a hash, and meets itself.
func TestLongDataKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		long := strings.Repeat("k", 300)
		at := appendAll(t, store, numbers(t, long, 3)...)
		cfg := config()
		cfg.Keys, cfg.Failures = projector.DataKeys("key"), projector.Policy{Then: projector.Park, Attempts: 1}
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 1 {
				return errTest
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), at, projector.DataKey("key", long)), projector.ErrParked)
		run.stop(t)
		require.Empty(t, values(m))
		require.Equal(t, 3, stateOf(t, m).Parked)
	})
}

// An event that waits because of one of its keys holds up those of the other.
func TestTwoDataKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		at := appendAll(t, store, record(t, Added{"a", 1}), both(t, "a", "b", 2), both(t, "z", "b", 3), record(t, Added{"c", 4}))
		cfg := parks()
		cfg.Keys = projector.DataKeys("key", "and")
		p := projector.New(store, m, cfg, newClinic(errTest, 1).handle)
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		run.stop(t)
		require.Equal(t, "1!, 2, 3", waiting(t, m))
		require.Equal(t, map[string]string{"c": ",4"}, values(m))
	})
}
