package sqlitestore

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The benchmarks print ratios of things measured in one run, which depend less
// on the machine than times do. What is aimed at stands beside each.

// posting is what a command of a ledger writes.
func posting(account string) event.Record {
	id := uuid.New()
	return event.Record{ID: id, Type: "MoneyPosted", Data: json.RawMessage(
		`{"commandId":"` + id.String() + `","accountId":"` + account + `","cents":"-300","balance":"1200"}`)}
}

func guarded(account string, at consistency.Position, r event.Record) []consistency.Observation {
	return []consistency.Observation{
		{Query: consistency.Where("accountId", account), At: at},
		{Query: consistency.Where(consistency.CommandKey, r.ID.String())},
	}
}

// commands runs n commands by 64 goroutines, each on an account of its own, in
// groups of at most so many.
func commands(b *testing.B, s *Store, n, most int) time.Duration {
	s.file.queue.mu.Lock()
	s.file.queue.most = most
	s.file.queue.mu.Unlock()
	const workers = 64
	begun := time.Now()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			account, at := uuid.NewString(), consistency.Position{}
			for range n / workers {
				r := posting(account)
				receipt, err := s.Append(context.Background(), []event.Record{r}, guarded(account, at, r))
				if err != nil {
					b.Error(err)
					return
				}
				at = receipt.Positions[0]
			}
		})
	}
	all.Wait()
	return time.Since(begun)
}

// Group commit against one transaction per command, the same rows: at least 2.5
// times as many commands, at least 10 times with 1 ms added to each sync, and at
// most a sync for 16 commands.
func BenchmarkGroupCommit(b *testing.B) {
	for _, slow := range []time.Duration{0, time.Millisecond} {
		b.Run("sync+"+slow.String(), func(b *testing.B) {
			s := open(b, tempDB(b))
			disk.slow.Store(int64(slow))
			defer disk.slow.Store(0)
			const n = 64 * 50
			commands(b, s, n, groupAppends)
			var each, grouped time.Duration
			var syncs int64
			for b.Loop() {
				each += commands(b, s, n, 1)
				before := disk.walSyncs.Load()
				grouped += commands(b, s, 4*n, groupAppends)
				syncs += disk.walSyncs.Load() - before
			}
			done := float64(4 * n * b.N)
			b.ReportMetric(4*float64(each)/float64(grouped), "x-faster")
			b.ReportMetric(float64(syncs)/done, "syncs/command")
			b.ReportMetric(done/grouped.Seconds(), "commands/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const perAccount = 20

// ledger makes a log of n events, 20 to an account. In each 100,000 there are
// ten with a rare key. What is slow and only needed for safety is left out.
func ledger(b *testing.B, n int) *Store {
	path := tempDB(b)
	s := open(b, path)
	for _, p := range []string{"synchronous=OFF", "cache_size=-400000", "wal_autocheckpoint=50000"} {
		require.NoError(b, sqlitedb.Exec(s.file.writer.conn, "PRAGMA "+p))
	}
	s.file.wal.Limit = 1 << 40
	var all sync.WaitGroup
	parts := make(chan int)
	for range 8 {
		all.Go(func() {
			for from := range parts {
				records := make([]event.Record, 0, 1000)
				for i := from; i < from+1000; i++ {
					r := posting(strconv.Itoa(i % (n / perAccount)))
					if i%10_000 == 5000 {
						r.Data = append(r.Data[:len(r.Data)-1], `,"rare":"`+strconv.Itoa(i/100_000)+`"}`...)
					}
					records = append(records, r)
				}
				if _, err := s.Append(context.Background(), records, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for from := 0; from < n; from += 1000 {
		parts <- from
	}
	close(parts)
	all.Wait()
	require.NoError(b, s.Close())
	return open(b, path)
}

// command reads a context and appends.
func command(b *testing.B, s *Store, account string) {
	r := posting(account)
	parts := []eventstore.Part{{Query: consistency.Where("accountId", account)}, {Query: consistency.Where(consistency.CommandKey, r.ID.String())}}
	seen, err := s.Snapshot(context.Background(), parts...)
	if err == nil {
		_, err = s.Append(context.Background(), []event.Record{r}, guarded(account, seen[0].Last, r))
	}
	require.NoError(b, err)
}

func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// What the size of the log costs.
func BenchmarkLargeLog(b *testing.B) {
	million := 1_000_000
	if testing.Short() {
		million = 100_000
	}
	small, large := ledger(b, 10_000), ledger(b, million)
	b.Run("commands", func(b *testing.B) { largeAgainstSmall(b, large, small) })
	rare, common := consistency.Where("rare", "0"), consistency.Where("cents", "-300")
	b.Run("history of rare and common", func(b *testing.B) {
		bothAgainstOne(b, large, eventstore.Part{Query: rare.And(common)}, eventstore.Part{Query: rare})
	})
	b.Run("latest of rare and common", func(b *testing.B) {
		bothAgainstOne(b, large, eventstore.Part{Query: rare.And(common), LatestOnly: true}, eventstore.Part{Query: rare, LatestOnly: true})
	})
}

// A snapshot and an append in a log of a million events against ten thousand,
// the same context size: at most twice the time, and the same number of seeks.
func largeAgainstSmall(b *testing.B, large, small *Store) {
	var times [2][]time.Duration
	var seeks [2]int64
	account := 0
	for b.Loop() {
		for range 100 {
			account++
			name := strconv.Itoa(account % (10_000 / perAccount)) // the same in both
			for i, s := range []*Store{small, large} {
				_, err := s.Snapshot(context.Background(), eventstore.Part{Query: consistency.Where("accountId", name)})
				require.NoError(b, err) // now it is warm
				before, begun := s.file.seeks.Load(), time.Now()
				command(b, s, name)
				times[i] = append(times[i], time.Since(begun))
				seeks[i] += s.file.seeks.Load() - before
			}
		}
	}
	b.ReportMetric(median(times[1])/median(times[0]), "x-time")
	b.ReportMetric(float64(seeks[1])/float64(seeks[0]), "x-seeks")
	b.ReportMetric(median(times[1])/1e3, "µs/command")
	b.ReportMetric(0, "ns/op")
}

// A rare and a common key together against the rare one alone: at most 3 times.
func bothAgainstOne(b *testing.B, s *Store, both, one eventstore.Part) {
	var times [2][]time.Duration
	for b.Loop() {
		for range 100 {
			for i, p := range []eventstore.Part{one, both} {
				begun := time.Now()
				results, err := s.Snapshot(context.Background(), p)
				times[i] = append(times[i], time.Since(begun))
				require.NoError(b, err)
				require.NotEmpty(b, results[0].Records)
			}
		}
	}
	b.ReportMetric(median(times[1])/median(times[0]), "x-rare-alone")
	b.ReportMetric(median(times[1])/1e3, "µs/read")
	b.ReportMetric(0, "ns/op")
}
