package sqlitestore

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

func BenchmarkDraft(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "a.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ctx := context.Background()
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			cpu0 := cpuTime()
			begin := time.Now()
			for w := range workers {
				wg.Go(func() {
					account := fmt.Sprintf("account-%d", w)
					var last consistency.Position
					for n.Add(1) <= int64(b.N) {
						id := uuid.New()
						r := event.Record{ID: id, Type: "MoneyPosted", Data: []byte(`{"commandId":"` + id.String() + `","accountId":"` + account + `","cents":"-300","note":"nothing of interest"}`)}
						got, err := s.Append(ctx, []event.Record{r}, []consistency.Observation{
							{Query: consistency.Where("accountId", account), At: last},
							{Query: consistency.Where("commandId", id.String())},
						})
						if err != nil {
							b.Error(err)
							return
						}
						last = got.Positions[0]
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(cpuTime()-cpu0)/1e3/float64(b.N), "cpu-µs/append")
			b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "appends/s")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(0, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func build(b *testing.B, s *Store, n int) {
	records := make([]event.Record, 0, 1000)
	for i := 0; i < n; i++ {
		id := uuid.New()
		common := "yes"
		rare := fmt.Sprint(i / 10000)
		if i%10000 < 9990 {
			rare = ""
		}
		records = append(records, event.Record{ID: id, Type: "MoneyPosted", Data: []byte(fmt.Sprintf(`{"commandId":"%s","accountId":"account-%d","cents":"-300","common":"%s","rare":"%s"}`, id, i%(n/20), common, rare))})
		if len(records) == 1000 {
			if _, err := s.Append(context.Background(), records, nil); err != nil {
				b.Fatal(err)
			}
			records = records[:0]
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "a.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			cpu0, begin := cpuTime(), time.Now()
			build(b, s, n)
			b.ReportMetric(float64(cpuTime()-cpu0)/1e3/float64(n), "cpu-µs/event")
			b.ReportMetric(time.Since(begin).Seconds(), "s")
			begin = time.Now()
			for i := range 2000 {
				_, err := s.Snapshot(context.Background(), eventstore.Part{Query: consistency.Where("accountId", fmt.Sprint("account-", i%500))}, eventstore.Part{Query: consistency.Where("commandId", uuid.New().String())})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(begin).Microseconds())/2000, "µs/snapshot")
			begin = time.Now()
			for i := range 2000 {
				_, err := s.Snapshot(context.Background(), eventstore.Part{LatestOnly: true, Query: consistency.Where("accountId", fmt.Sprint("account-", i%500))})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(begin).Microseconds())/2000, "µs/latest")
			begin = time.Now()
			for range 2000 {
				_, err := s.Snapshot(context.Background(), eventstore.Part{Query: consistency.Where("rare", "0")})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(begin).Microseconds())/2000, "µs/rare")
			begin = time.Now()
			for range 2000 {
				_, err := s.Snapshot(context.Background(), eventstore.Part{Query: consistency.Where("rare", "0").And(consistency.Where("common", "yes"))})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(begin).Microseconds())/2000, "µs/and")
		})
	}
}
