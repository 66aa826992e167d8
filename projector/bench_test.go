package projector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// sum is a light handler: what is measured is the framework around it.
func sum(_ context.Context, x *memtarget.Tx[int], d projector.Delivery) error {
	e := d.Event.(Added)
	was, _ := x.Get(e.Key)
	x.Put(e.Key, was+e.N)
	return nil
}

// BenchmarkCatchUp reads a log of 100,000 events into a model, and compares with
// a bare loop of the same batches: read, decode, write into the same target.
func BenchmarkCatchUp(b *testing.B) {
	const events, batch = 100_000, 500
	store := memstore.New()
	last := fill(b, store, events, 1000)
	check := func(m *memtarget.Target[int]) {
		for _, n := range m.All() {
			require.Equal(b, events/1000, n)
		}
		require.Equal(b, 1000, m.Len())
	}
	bare := func() {
		m := memtarget.New[int]()
		require.NoError(b, bareLoop(context.Background(), store, m, batch))
		check(m)
	}
	framework := func() {
		m := memtarget.New[int]()
		p := projector.New(store, m, projector.Config{Name: "sum", Events: codec, BatchSize: batch}, sum)
		run := start(b, p)
		require.NoError(b, p.WaitFor(context.Background(), last))
		run.stop(b)
		check(m)
	}
	bare()
	framework()
	var of, with float64
	for b.Loop() { // one after the other, so that both see the same machine
		of += seconds(bare)
		with += seconds(framework)
	}
	b.ReportMetric(float64(b.N)*events/with, "events/s")
	b.ReportMetric(of/with, "of-bare-loop")
	b.ReportMetric(0, "ns/op")
}

func bareLoop(ctx context.Context, store eventstore.Store, m *memtarget.Target[int], batch int) error {
	claim, err := m.Claim(ctx, name)
	if err != nil {
		return err
	}
	query := consistency.All().Type("Added")
	for at := (projector.Checkpoint{}); ; {
		page, err := store.Page(ctx, query, at.Position, batch)
		if err != nil || !page.UpTo.After(at.Position) {
			return err
		}
		to := projector.Checkpoint{Position: page.UpTo, EventID: page.UpToID}
		if err := m.Apply(ctx, claim, at, func(b projector.Batch[*memtarget.Tx[int]]) (projector.Checkpoint, error) {
			for _, r := range page.Records {
				e, err := codec.Decode(r)
				if err != nil {
					return to, err
				}
				if err := sum(ctx, b.Tx(), projector.Delivery{Record: r, Event: e}); err != nil {
					return to, err
				}
			}
			return to, nil
		}); err != nil {
			return err
		}
		at = to
	}
}

// BenchmarkWaitFor is the time from an append to the end of the wait for it.
func BenchmarkWaitFor(b *testing.B) {
	store, m := memstore.New(), memtarget.New[int]()
	p := projector.New(store, m, projector.Config{Name: "sum", Events: codec}, sum)
	run := start(b, p)
	for b.Loop() {
		r := record(b, Added{"k", 1})
		require.NoError(b, p.WaitFor(context.Background(), appendAll(b, store, r)))
	}
	run.stop(b)
}

// BenchmarkLanes compares eight lanes with one, with a handler that waits 1 ms
// as a call over a network does.
func BenchmarkLanes(b *testing.B) {
	const events = 2000
	store := memstore.New()
	last := fill(b, store, events, 1000)
	run := func(lanes int) float64 {
		return seconds(func() {
			p := projector.New(store, memtarget.New[int](), projector.Config{Name: "sum", Events: codec, Lanes: lanes, Keys: projector.DataKeys("key")},
				func(ctx context.Context, x *memtarget.Tx[int], d projector.Delivery) error {
					time.Sleep(time.Millisecond)
					return sum(ctx, x, d)
				})
			run := start(b, p)
			require.NoError(b, p.WaitFor(long(b), last))
			run.stop(b)
		})
	}
	var one, eight float64
	for b.Loop() {
		one += run(1)
		eight += run(8)
	}
	b.ReportMetric(one/eight, "of-one-lane")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkParkedKey compares a catch-up with one parked key among 1,000 with
// one where nothing is parked.
func BenchmarkParkedKey(b *testing.B) {
	const events = 100_000
	store := memstore.New()
	last := fill(b, store, events, 1000)
	run := func(poison string) float64 {
		return seconds(func() {
			cfg := projector.Config{Name: "sum", Events: codec, Keys: projector.DataKeys("key"), Failures: projector.Policy{Attempts: 1, Then: projector.Park}}
			p := projector.New(store, memtarget.New[int](), cfg, func(ctx context.Context, x *memtarget.Tx[int], d projector.Delivery) error {
				if d.Event.(Added).Key == poison {
					return errTest
				}
				return sum(ctx, x, d)
			})
			run := start(b, p)
			require.NoError(b, p.WaitFor(long(b), last, projector.DataKey("key", "k1")))
			run.stop(b)
		})
	}
	run("")
	var none, one float64
	for b.Loop() {
		none += run("")
		one += run("k7")
	}
	b.ReportMetric(none/one, "of-none-parked")
	b.ReportMetric(0, "ns/op")
}

// fill appends events of so many keys, in turns.
func fill(b *testing.B, store eventstore.Store, events, keys int) (last consistency.Position) {
	for i := 0; i < events; i += 1000 {
		records := make([]event.Record, 1000)
		for j := range records {
			data, version, err := codec.Encode(Added{fmt.Sprint("k", (i+j)%keys), 1}, uuid.Nil)
			require.NoError(b, err)
			records[j] = event.Record{ID: uuid.New(), Type: "Added", Data: data, Metadata: event.Metadata{Version: version}}
		}
		receipt, err := store.Append(context.Background(), records, nil)
		require.NoError(b, err)
		last = receipt.Positions[999]
	}
	return last
}

func long(b *testing.B) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.Cleanup(cancel)
	return ctx
}
