package projector_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/sqlitestore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/cccgo/ccc/projector/sqlitetarget"
	"github.com/stretchr/testify/require"
)

// usage is what a leak would make grow.
type usage struct {
	goroutines, files int
	heap              uint64
}

// used is how much there is once all has come to rest.
func used() (u usage) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd") // empty where there is no such thing
	return usage{runtime.NumGoroutine(), len(files), m.HeapAlloc}
}

// requireFlat compares with what there was before, give or take a heap of so
// many bytes.
func requireFlat(t testing.TB, before usage, heap uint64) {
	t.Helper()
	flat := func(after usage) bool {
		// Targets and stores keep some connections for the next ones.
		return after.goroutines <= before.goroutines && after.files <= before.files+8 && after.heap <= before.heap+heap
	}
	after := used()
	for end := time.Now().Add(10 * time.Second); !flat(after) && time.Now().Before(end); after = used() {
		time.Sleep(10 * time.Millisecond) // what was ended is not gone yet
	}
	require.True(t, flat(after), "%+v, then %+v", before, after)
	t.Logf("%+v, then %+v", before, after)
}

// pages counts the reads of a store.
type pages struct {
	eventstore.Store
	n atomic.Int64
}

func (p *pages) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	p.n.Add(1)
	return p.Store.Page(ctx, q, after, limit)
}

// cycles starts and stops a projector and a waiter, over and over. Each of them
// gets as far as it can: the projector applies an event, the waiter waits.
func cycles[Tx any](t *testing.T, n int, store eventstore.Store, target projector.Target[Tx]) {
	p := projector.New(store, target, config(), func(context.Context, Tx, projector.Delivery) error { return nil })
	none := consistency.NewPosition(0, 1<<40)
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		ended, waited := make(chan error, 1), make(chan error, 1)
		go func() { waited <- p.WaitFor(ctx, none) }()
		go func() { ended <- p.Run(ctx) }()
		if i%10 != 0 { // else it ends while it begins
			require.NoError(t, p.WaitFor(ctx, appendAll(t, store, record(t, Added{"a", 1}))))
		}
		cancel()
		require.ErrorIs(t, <-waited, projector.ErrNotYet)
		require.NoError(t, <-ended)
	}
}

// Ten thousand starts and stops leave nothing behind.
func TestStartsAndStopsLeaveNothing(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	store, m := memstore.New(), memtarget.New[string]()
	appendAll(t, store, numbers(t, "a", 3)...)
	cycles(t, 100, store, m)
	before := used()
	cycles(t, n, store, m)
	requireFlat(t, before, uint64(n)*1500) // the events
	runtime.KeepAlive(store)
	runtime.KeepAlive(m)
}

func TestStartsAndStopsOverFilesLeaveNothing(t *testing.T) {
	n := 500
	if testing.Short() {
		n = 50
	}
	store, target := files(t)
	appendAll(t, store, numbers(t, "a", 3)...)
	cycles(t, 50, store, target)
	before := used()
	cycles(t, n, store, target)
	requireFlat(t, before, 1<<20)
}

func files(t testing.TB) (*sqlitestore.Store, *sqlitetarget.Target) {
	dir := t.TempDir()
	store, err := sqlitestore.Open(filepath.Join(dir, "log.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	target, err := sqlitetarget.Open(filepath.Join(dir, "model.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	return store, target
}

// cpu is the processor time of this process, to 10 ms; zero where there is no
// such file.
func cpu() (d time.Duration) {
	stat, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for i := 11; i <= 12 && i < len(fields); i++ {
		ticks, _ := strconv.Atoi(fields[i])
		d += time.Duration(ticks) * 10 * time.Millisecond
	}
	return d
}

// many runs projectors over one store and one target, and appends events one by
// one: each event reaches all, and costs the store about one read.
func many[Tx any](t *testing.T, n, events int, store *pages, target projector.Target[Tx], handler projector.Handler[Tx]) {
	var moved atomic.Int64
	counted := &steps[Tx]{target, func(_ context.Context, step string) error {
		if step == "apply done" {
			moved.Add(1)
		}
		return nil
	}}
	reached := func(want int) { // a WaitFor of each would be most of what is measured
		t.Helper()
		require.Eventually(t, func() bool { return moved.Load() >= int64(want*n) }, time.Minute, time.Millisecond)
	}
	before := used()
	var all []*projector.Projector[Tx]
	var runs []*running
	for i := range n {
		cfg := config()
		cfg.Name = fmt.Sprint("p", i)
		if i%2 == 0 { // half of them do not get the events
			cfg.Query = consistency.Where("key", "another")
		}
		all = append(all, projector.New[Tx](store, counted, cfg, handler))
		runs = append(runs, start(t, all[i]))
	}
	last := appendAll(t, store, record(t, Added{"a", 1}))
	reached(1)
	running := used()
	t.Logf("%.2f goroutines and %d KiB for each idle one", float64(running.goroutines-before.goroutines)/float64(n), (int(running.heap)-int(before.heap))/n>>10)
	idle := cpu()
	time.Sleep(time.Second)
	t.Logf("idle: %v of processor time in a second", cpu()-idle)
	was, busy := store.n.Load(), cpu()
	for i := range events {
		last = appendAll(t, store, record(t, Added{"a", i + 2}))
		reached(i + 2)
	}
	read := float64(store.n.Load()-was) / float64(events)
	t.Logf("an event: %.2f reads of the store, %v of processor time, %v for each projector", read, (cpu()-busy)/time.Duration(events), (cpu()-busy)/time.Duration(events*n))
	require.Less(t, read, 5.0)
	for _, p := range all {
		require.NoError(t, p.WaitFor(t.Context(), last))
	}
	for _, r := range runs {
		r.end()
	}
	for _, r := range runs {
		require.NoError(t, <-r.ended)
	}
}

func TestManyProjectorsReadOnce(t *testing.T) {
	const n, events = 500, 20
	m := memtarget.New[string]()
	var applied atomic.Int64
	store := &pages{Store: memstore.New()}
	handler := func(_ context.Context, _ tx, d projector.Delivery) error {
		applied.Add(1)
		return nil
	}
	t.Run("warm", func(t *testing.T) { many(t, n, 1, store, m, handler) })
	before := used()
	t.Run("run", func(t *testing.T) { many(t, n, events, store, m, handler) })
	requireFlat(t, before, 1<<20)
	require.EqualValues(t, n/2*(events+3), applied.Load())
	runtime.KeepAlive(store)
	runtime.KeepAlive(m)
}

func TestManyProjectorsOverFilesReadOnce(t *testing.T) {
	n, events := 500, 5
	if testing.Short() {
		n, events = 100, 2
	}
	store, target := files(t)
	var applied atomic.Int64
	counted := &pages{Store: store}
	handler := func(context.Context, *sqlitetarget.Tx, projector.Delivery) error {
		applied.Add(1)
		return nil
	}
	t.Run("warm", func(t *testing.T) { many(t, n, 1, counted, target, handler) })
	before := used()
	t.Run("run", func(t *testing.T) { many(t, n, events, counted, target, handler) })
	requireFlat(t, before, 1<<20)
	require.EqualValues(t, n/2*(events+3), applied.Load())
}

// One that is ten times slower than what is written falls behind, out of what is
// read together, and catches up by itself; the fast ones do not wait for it.
func TestSlowProjectorCatchesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var all []*projector.Projector[tx]
		var runs []*running
		for i := range 5 {
			cfg := config()
			cfg.Name, cfg.BatchSize = fmt.Sprint("p", i), 0
			all = append(all, projector.New[tx](store, memtarget.New[string](), cfg, func(context.Context, tx, projector.Delivery) error { return nil }))
		}
		slow := config()
		slow.Name, slow.BatchSize = "slow", 0
		next := 1
		all[4] = projector.New[tx](store, m, slow, func(_ context.Context, _ tx, d projector.Delivery) error {
			if n := d.Event.(Added).N; n != next {
				t.Errorf("event %d comes in the place of %d", n, next)
			}
			next++
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		for _, p := range all {
			runs = append(runs, start(t, p))
		}
		events := 60_000 // a minute
		if testing.Short() {
			events = 15_000
		}
		began := time.Now()
		var last consistency.Position
		for i := range events {
			last = appendAll(t, store, record(t, Added{"a", i + 1}))
			time.Sleep(time.Millisecond)
			if i%1000 == 0 {
				require.NoError(t, all[i%4].WaitFor(short(t), last))
			}
		}
		synctest.Wait()
		l := lagOf(t, all[4])
		require.True(t, l.More)
		require.Equal(t, projector.MaxLagEvents, l.Events)
		require.InDelta(t, float64(events)*0.9/1000, l.Age.Seconds(), 2)
		require.Equal(t, projector.CatchingUp, healthOf(t, all[4]).Condition)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, all[4].WaitFor(ctx, last))
		require.InDelta(t, float64(events)/100, time.Since(began).Seconds(), 10)
		require.Equal(t, projector.Current, healthOf(t, all[4]).Condition)
		for _, r := range runs {
			r.stop(t)
		}
	})
}

// A rare event among ninety-nine others that the projector knows nothing of: the
// checkpoint moves over them, WaitFor returns for each of them, and nothing of
// them stays in memory.
func TestRareEventsAmongOthers(t *testing.T) {
	const events = 50_000
	store, m := memstore.New(), memtarget.New[int]()
	write := func(n int) (last consistency.Position) {
		records := make([]event.Record, 100)
		for i := 0; i < n; i += len(records) {
			for j := range records {
				if records[j] = record(t, Strange{fmt.Sprint(j)}); j == 50 {
					records[j] = record(t, Added{"a", 1})
				}
			}
			receipt, err := store.Append(t.Context(), records, nil)
			require.NoError(t, err)
			last = receipt.Positions[len(records)-1]
		}
		return last
	}
	p := projector.New(store, m, projector.Config{Name: "sum", Events: codec}, sum)
	last := write(events)
	run := start(t, p)
	require.NoError(t, p.WaitFor(t.Context(), last))
	before := used()
	require.NoError(t, p.WaitFor(t.Context(), write(100)))
	for range 200 { // each is an event of its own, and no match
		require.NoError(t, p.WaitFor(t.Context(), appendAll(t, store, record(t, Strange{"a"}))))
	}
	sum, _ := m.Get("a")
	require.Equal(t, events/100+1, sum)
	requireFlat(t, before, 1<<20)
	runtime.KeepAlive(store)
	run.stop(t)
}

// The connection is cut a hundred times under projectors that read together:
// each goes on, and has each event once.
func TestCutConnectionsUnderManyProjectors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(), memtarget.New[string]()
		var down atomic.Bool
		var reads atomic.Int64
		log.broken = func(call string) error {
			if call == "page" {
				reads.Add(1)
			}
			if down.Load() {
				return fmt.Errorf("%s: %w", call, errTest)
			}
			return nil
		}
		var all []*projector.Projector[tx]
		var runs []*running
		for i := range 8 {
			cfg := config()
			cfg.Name = fmt.Sprint("p", i)
			all = append(all, projector.New(log, m, cfg, func(_ context.Context, x tx, d projector.Delivery) error {
				key := fmt.Sprint(i, d.Event.(Added).Key)
				was, _ := x.Get(key)
				x.Put(key, fmt.Sprint(was, ",", d.Event.(Added).N))
				return nil
			}))
			runs = append(runs, start(t, all[i]))
		}
		for i := range 100 {
			down.Store(true)
			last := log.add(record(t, Added{"a", i + 1}))
			time.Sleep(time.Minute)
			down.Store(false)
			for _, p := range all {
				require.NoError(t, p.WaitFor(short(t), last))
			}
		}
		for i, r := range runs {
			r.stop(t)
			require.Equal(t, list(100), values(m)[fmt.Sprint(i, "a")])
		}
		t.Logf("%d reads", reads.Load())
	})
}
