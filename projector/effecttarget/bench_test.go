package effecttarget_test

import (
	"context"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
)

// lanesTime is the time for n events of a handler of 1 ms over lanes.
func lanesTime(t testing.TB, k effecttarget.Keeper, n, lanes int) time.Duration {
	store, last := orders(t, n, n)
	target := effecttarget.New(k, effecttarget.Config{})
	cfg := config()
	cfg.Lanes, cfg.Keys = lanes, projector.DataKeys("customer")
	p := projector.New(store, target, cfg, func(ctx context.Context, _ tx, _ projector.Delivery) error {
		return pause(ctx, time.Millisecond)
	})
	began := time.Now()
	end := run(t, p)
	require.NoError(t, p.WaitFor(within(t, time.Minute), last))
	took := time.Since(began)
	end()
	require.NoError(t, target.Close())
	return took
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BenchmarkLanes tells how much faster eight lanes are than one.
func BenchmarkLanes(b *testing.B) {
	for kind, open := range map[string]func() effecttarget.Keeper{
		"file":   func() effecttarget.Keeper { return effecttarget.File(b.TempDir()) },
		"memory": effecttarget.Memory,
		"table":  func() effecttarget.Keeper { return openTable(b, b.TempDir()+"/own.db") },
	} {
		b.Run(kind, func(b *testing.B) {
			var one, eight time.Duration
			for b.Loop() {
				one += lanesTime(b, open(), 400, 1)
				eight += lanesTime(b, open(), 400, 8)
			}
			b.ReportMetric(one.Seconds()/eight.Seconds(), "x")
			b.ReportMetric(float64(400*b.N)/one.Seconds(), "one/s")
			b.ReportMetric(float64(400*b.N)/eight.Seconds(), "eight/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Lanes share their saves. In virtual time a save takes what it is told to.
func TestLanesShareSaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, save := range []time.Duration{0, 300 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond} {
			open := func() effecttarget.Keeper {
				return &hooked{Keeper: effecttarget.Memory(), before: func([]byte) error { time.Sleep(save); return nil }}
			}
			one, eight := lanesTime(t, open(), 160, 1), lanesTime(t, open(), 160, 8)
			ratio := one.Seconds() / eight.Seconds()
			t.Logf("save %s: one lane %s, eight %s: %.1fx", save, one, eight, ratio)
			require.GreaterOrEqual(t, ratio, 6.0, "save %s", save)
		}
	})
}
