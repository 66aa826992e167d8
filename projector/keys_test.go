package projector_test

import (
	"strings"
	"testing"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// Keys are the texts that stand at the top of the raw data, each with its name.
func TestDataKeys(t *testing.T) {
	keys := projector.DataKeys("a", "b", "missing", "number", "deep")
	r := event.Record{Data: []byte(`{"number":1,"b":"two","a":"one","deep":{"a":"x"},"c":"three"}`)}
	require.Equal(t, []string{"a=one", "b=two"}, keys(r))
	require.Equal(t, []string{projector.DataKey("a", "one"), projector.DataKey("b", "two")}, keys(r))
	require.Empty(t, keys(event.Record{Data: []byte(`{}`)}))
	require.Empty(t, projector.DataKeys()(r))
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
		cfg.Keys = func(r event.Record) []string {
			if keysOf(r)[0] == "other" {
				return []string{"other"}
			}
			return given
		}
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
		cfg.Keys = func(event.Record) []string { return shared }
		p := projector.New(log, m, cfg, add)
		run := start(t, p)
		all := log.all()
		require.NoError(t, p.WaitFor(short(t), all[19].Position))
		run.stop(t)
		require.Equal(t, fold(all), values(m))
		require.Equal(t, []string{"all", "", "", "", "", "", "", ""}, shared[:8])
	})
}
