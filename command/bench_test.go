package command_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/google/uuid"
)

// BenchmarkOverhead is what a command costs on top of the append that it comes
// down to, in one run: the same event under the same observations, on a log in
// memory, with the context's state kept from the command before.
//
//	go test -bench Overhead -benchmem ./command
//
// over-us is the difference in microseconds, over-allocs in allocations.
func BenchmarkOverhead(b *testing.B) {
	const n = 20_000
	var over, bareTime, allocs, ratio []float64
	for b.Loop() {
		bare, framework := bareAppends(b), frameworkCalls(b)
		bareNs, bareAllocs := perCall(n, bare)
		ns, made := perCall(n, framework)
		bareTime = append(bareTime, bareNs/1000)
		over, allocs, ratio = append(over, (ns-bareNs)/1000), append(allocs, made-bareAllocs), append(ratio, ns/bareNs)
	}
	b.ReportMetric(median(bareTime), "bare-us")
	b.ReportMetric(median(over), "over-us")
	b.ReportMetric(median(allocs), "over-allocs")
	b.ReportMetric(median(ratio), "ratio")
}

func bareAppends(b *testing.B) func() {
	s := memstore.New()
	b.Cleanup(func() { s.Close() })
	context := consistency.Where("accountId", "ada")
	data := []byte(`{"commandId":"01890000-0000-7000-8000-000000000000","accountId":"ada","cents":"1"}`)
	var at consistency.Position
	return func() {
		id := uuid.New()
		d := append([]byte(nil), data...)
		copy(d[14:], id.String())
		receipt, err := s.Append(ctx, []event.Record{{ID: id, Type: "MoneyPosted", Data: d}}, []consistency.Observation{
			{Query: context, At: at}, {Query: consistency.Where(consistency.CommandKey, id.String())}})
		if err != nil {
			b.Fatal(err)
		}
		at = receipt.Positions[0]
	}
}

func frameworkCalls(b *testing.B) func() {
	s := memstore.New()
	b.Cleanup(func() { s.Close() })
	r := command.NewRunner(s, command.Config{})
	return func() {
		if _, err := command.Run(ctx, r, uuid.New(), deposit{"ada", 1}); err != nil {
			b.Fatal(err)
		}
	}
}

func perCall(n int, f func()) (ns, allocs float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range n {
		f()
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return float64(took.Nanoseconds()) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n)
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
