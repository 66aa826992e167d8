package projector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// What cannot work is said at once, by each method, and touches nothing.
func TestMisuse(t *testing.T) {
	store, m := memstore.New(), memtarget.New[string]()
	var noStore *memstore.Store
	var noTarget *memtarget.Target[string]
	for _, c := range []struct {
		says   string
		change func(*projector.Config) (eventstore.Store, target, projector.Handler[tx])
	}{
		{"Config.Name", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Name = ""
			return store, m, add
		}},
		{"UTF-8", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Name = "a\x00"
			return store, m, add
		}},
		{"200 bytes", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Boundary = strings.Repeat("b", 201)
			return store, m, add
		}},
		{"Config.Events is nil", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Events = nil
			return store, m, add
		}},
		{"no event types", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Events = event.NewCodec()
			return store, m, add
		}},
		{"key", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Query = consistency.Where("kye", "a")
			return store, m, add
		}},
		{"type", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			c.Query = consistency.All().Type("Adde")
			return store, m, add
		}},
		{"store is nil", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) { return nil, m, add }},
		{"store is nil", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			return noStore, m, add
		}},
		{"target is nil", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			return store, nil, add
		}},
		{"target is nil", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) {
			return store, noTarget, add
		}},
		{"handler is nil", func(c *projector.Config) (eventstore.Store, target, projector.Handler[tx]) { return store, m, nil }},
	} {
		cfg := config()
		s, to, h := c.change(&cfg)
		p := projector.New(s, to, cfg, h)
		_, lag := p.Lag(t.Context())
		for _, err := range []error{
			p.Run(t.Context()), p.Check(t.Context()), p.WaitFor(t.Context(), consistency.NewPosition(0, 1)), lag,
		} {
			require.ErrorIs(t, err, projector.ErrMisuse)
			require.ErrorContains(t, err, c.says)
		}
	}
	require.Equal(t, projector.State{}, stateOf(t, m))
}

// The zero Query means every type of the codec, under its old names too; another
// one narrows it.
func TestQuery(t *testing.T) {
	renamed := event.NewCodec(event.Of[Added]().Formerly("Strange"))
	for _, c := range []struct {
		events *event.Codec
		query  consistency.Query
		want   []string
	}{
		{codec, consistency.Query{}, []string{"a1", "b2", "a3"}},
		{codec, consistency.Where("key", "a").Type("Added"), []string{"a1", "a3"}},
		{widerThan, consistency.Where("key", "b"), []string{"b2", "b?"}},
		{widerThan, consistency.All(), []string{"a1", "b2", "b?", "a3"}},
		{renamed, consistency.Query{}, []string{"a1", "b2", "b0", "a3"}},
		{renamed, consistency.All().Type("Added"), []string{"a1", "b2", "b0", "a3"}},
	} {
		bubble(t, func(t *testing.T) {
			store, m := memstore.New(), memtarget.New[string]()
			last := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"b", 2}), record(t, Strange{"b"}), record(t, Added{"a", 3}))
			cfg := config()
			cfg.Events, cfg.Query = c.events, c.query
			var got []string
			p := projector.New(store, m, cfg, func(_ context.Context, _ tx, d projector.Delivery) error {
				switch e := d.Event.(type) {
				case Added:
					got = append(got, fmt.Sprint(e.Key, e.N))
				case Strange:
					got = append(got, e.Key+"?")
				}
				return nil
			})
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), last))
			run.stop(t)
			require.Equal(t, c.want, got)
		})
	}
}

// A transaction ends when it is full, or when its time is over.
func TestBatchesAreBounded(t *testing.T) {
	for _, c := range []struct {
		size  int
		limit time.Duration
		takes time.Duration
		want  int // transactions for 20 events
	}{
		{20, time.Hour, time.Second, 1}, {0, 0, 0, 1}, {7, time.Hour, time.Second, 3},
		{20, 50 * time.Millisecond, 10 * time.Millisecond, 4}, {0, 0, 10 * time.Millisecond, 4}, {20, time.Nanosecond, time.Second, 20},
	} {
		bubble(t, func(t *testing.T) {
			store, m := memstore.New(), memtarget.New[string]()
			last := appendAll(t, store, numbers(t, "a", 20)...)
			cfg := config()
			cfg.BatchSize, cfg.BatchTime = c.size, c.limit
			batches := 0
			counts := &steps[tx]{m, func(_ context.Context, step string) error {
				if step == "apply" {
					batches++
				}
				return nil
			}}
			p := projector.New[tx](store, counts, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
				time.Sleep(c.takes)
				return add(ctx, x, d)
			})
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), last))
			run.stop(t)
			require.Equal(t, c.want, batches)
			require.Equal(t, list(20), values(m)["a"])
		})
	}
}

// What a handler gets is the record as it is stored, beside its event.
func TestDelivery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		r := record(t, Added{"a", 1})
		r.Metadata.Custom = map[string]string{"actor": "ada"}
		var got projector.Delivery
		p := projector.New(store, m, config(), func(_ context.Context, _ tx, d projector.Delivery) error { got = d; return nil })
		run := start(t, p)
		r.Position = appendAll(t, store, r)
		require.NoError(t, p.WaitFor(short(t), r.Position))
		r.Time = time.Now().UTC().Truncate(time.Microsecond)
		require.Equal(t, projector.Delivery{Record: r, Event: Added{"a", 1}, Attempt: 1}, got)
		run.stop(t)
	})
}

// Boundaries of one model go on apart.
func TestBoundariesAreApart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := memtarget.New[string]()
		for _, b := range []string{"", "east", "west"} {
			store := memstore.New()
			cfg := config()
			cfg.Boundary = b
			p := projector.New(store, m, cfg, add)
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"b" + b, 1}))))
			run.stop(t)
		}
		require.Equal(t, map[string]string{"b": ",1", "beast": ",1", "bwest": ",1"}, values(m))
		require.False(t, stateOf(t, m).Checkpoint.Position.IsZero(), "an empty boundary is the default one")
	})
}

// The checkpoint is written once per batch, also where the log goes on with
// events of other types.
func TestOneCheckpointPerBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		writes := 0
		counts := &steps[tx]{m, func(_ context.Context, step string) error {
			if step == "apply" {
				writes++
			}
			return nil
		}}
		cfg := config()
		cfg.BatchSize = 10
		appendAll(t, store, record(t, Strange{"a"}), record(t, Added{"a", 1}), record(t, Strange{"a"}), record(t, Added{"a", 2}))
		last := appendAll(t, store, record(t, Strange{"a"}), record(t, Strange{"a"}))
		p := projector.New[tx](store, counts, cfg, add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), last))
		time.Sleep(time.Hour)
		run.stop(t)
		require.Equal(t, 1, writes)
	})
}
