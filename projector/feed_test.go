package projector

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var feedSeed = flag.Uint64("feed.seed", 1, "of the random run over a feed")

var errFeed = errors.New("as the test wants")

// bentStore lets a test answer in the place of the log.
type bentStore struct {
	eventstore.Store
	pages atomic.Int64
	page  func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) // may be nil
}

func (s *bentStore) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	s.pages.Add(1)
	if s.page != nil {
		return s.page(ctx, q, after, limit)
	}
	return s.Store.Page(ctx, q, after, limit)
}

// joined is a feed of so many Runs.
func joined(t testing.TB, s eventstore.Store, runs int) (f *feed) {
	for range runs {
		f = joinFeed(s)
	}
	t.Cleanup(func() {
		for range runs {
			f.leave()
		}
		feeds.Lock()
		defer feeds.Unlock()
		require.NotContains(t, feeds.of, s)
	})
	return f
}

func write(t testing.TB, s eventstore.Store, kind string, n int) (at consistency.Position) {
	records := make([]event.Record, n)
	for i := range records {
		records[i] = event.Record{ID: uuid.New(), Type: kind, Data: json.RawMessage(fmt.Sprintf(`{"key":"k%d"}`, i%3))}
	}
	receipt, err := s.Append(context.Background(), records, nil)
	require.NoError(t, err)
	return receipt.Positions[n-1]
}

func types(p eventstore.Page) (s string) {
	for _, r := range p.Records {
		s += r.Type
	}
	return s
}

var everything = consistency.All()

// look asks the feed of a store.
func look(t testing.TB, f *feed, q consistency.Query, after consistency.Position) eventstore.Page {
	t.Helper()
	p, err := f.page(context.Background(), f.store, q, after, 100, true)
	require.NoError(t, err)
	return p
}

// Whatever a feed answers, its readers get what they would get from the store:
// all matches, in order, each page complete up to where it says. The store's
// pages are short, lag and fail, and slow readers fall out of the window.
func TestFeedAnswersLikeTheStore(t *testing.T) {
	seed := *feedSeed
	t.Logf("seed %d", seed)
	log := memstore.New()
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	dice := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
	s := &bentStore{Store: log}
	s.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
		switch dice(20) {
		case 0:
			return eventstore.Page{}, errFeed
		case 1: // what another replica has
			p, err := log.Page(ctx, q, consistency.Position{}, 1+dice(5))
			if len(p.Records) > 0 && !p.Records[0].Position.After(after) {
				p.Records = nil
			}
			if p.UpTo.After(after) {
				return log.Page(ctx, q, after, 1)
			}
			return p, err
		}
		if dice(3) == 0 {
			limit = 1 + dice(limit)
		}
		return log.Page(ctx, q, after, limit)
	}
	f := joined(t, s, feedFrom)
	queries := []consistency.Query{
		everything, everything.Type("A"), everything.Type("B", "C"), consistency.Where("key", "k1"),
		consistency.Where("key", "k2").Type("A").Or(everything.Type("C")), everything.Type("never"),
	}
	const events = 3 * feedEvents
	var done atomic.Bool
	var readers sync.WaitGroup
	for i := range 3 * len(queries) {
		q, slow := queries[i%len(queries)], i%5 == 0
		readers.Go(func() {
			var at consistency.Position
			var got []event.Record
			for {
				ended := done.Load()
				limit := 1 + dice(600)
				if slow && dice(200) > 0 && !ended {
					time.Sleep(10 * time.Microsecond)
					continue
				}
				p, err := f.page(t.Context(), s, q, at, limit, dice(2) == 0)
				if errors.Is(err, errFeed) {
					continue
				}
				if !noError(t, err) || len(p.Records) > limit && !t.Failed() {
					t.Errorf("%d records, limit %d, error %v", len(p.Records), limit, err)
					return
				}
				if at.After(p.UpTo) { // lags
					continue
				}
				if inOrder(p, Checkpoint{Position: at}) != nil {
					t.Error("not in order")
				}
				if id := idAt(log, p.UpTo); id != p.UpToID {
					t.Errorf("up to %s: event %s, not %s", p.UpTo, p.UpToID, id)
				}
				got = append(got, p.Records...)
				if ended && p.UpTo == at && at == consistency.NewPosition(0, events) {
					break
				}
				at = p.UpTo
			}
			var want []uuid.UUID
			for r, err := range eventstore.All(context.Background(), log, q, consistency.Position{}) {
				noError(t, err)
				want = append(want, r.ID)
			}
			if len(got) != len(want) {
				t.Errorf("%s: %d events, the log has %d", q, len(got), len(want))
				return
			}
			for i := range got {
				if got[i].ID != want[i] {
					t.Errorf("%s: event %d is another one", q, i)
					return
				}
			}
		})
	}
	for n := 0; n < events; {
		k := min(1+dice(40), events-n)
		write(t, log, []string{"A", "B", "C", "D"}[dice(4)], k)
		n += k
		time.Sleep(50 * time.Microsecond)
	}
	done.Store(true)
	readers.Wait()
	t.Logf("%d reads of the store", s.pages.Load())
}

func noError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func idAt(s eventstore.Store, at consistency.Position) uuid.UUID {
	if at.IsZero() {
		return uuid.Nil
	}
	p, _ := s.Page(context.Background(), everything, at.Prev(), 1)
	return p.Records[0].ID
}

// One who asks opens the window where the log ends; from then on one read is
// enough for all, whatever their queries are.
func TestFeedReadsOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bentStore{Store: memstore.New()}
		f := joined(t, s, 4)
		head := write(t, s, "A", 10)
		require.Len(t, look(t, f, everything, consistency.Position{}).Records, 10)
		require.Empty(t, look(t, f, everything.Type("B"), head).Records)
		require.EqualValues(t, 2, s.pages.Load())

		s.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			time.Sleep(time.Second)
			return s.Store.Page(ctx, q, after, limit)
		}
		last := write(t, s, "A", 1)
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				kind := []string{"A", "B"}[i%2]
				p := look(t, f, everything.Type(kind), head)
				require.Equal(t, 1-i%2, len(p.Records))
				require.Equal(t, last, p.UpTo)
				require.NotZero(t, p.UpToID)
			})
		}
		all.Wait()
		require.EqualValues(t, 3, s.pages.Load())
		require.Len(t, look(t, f, everything, head).Records, 1, "from the window")
		require.EqualValues(t, 3, s.pages.Load())

		// Who was told nothing is not told that there is no more.
		p, err := f.page(t.Context(), s, everything, last, 1, false)
		require.NoError(t, err)
		require.Equal(t, eventstore.Page{UpTo: last, UpToID: p.UpToID}, p)
		require.EqualValues(t, 3, s.pages.Load())

		// Before the window each asks for himself.
		require.Len(t, look(t, f, everything, head.Prev()).Records, 2)
		require.EqualValues(t, 4, s.pages.Load())
		// So does who is ahead of it, after one look whether it can follow.
		s.page = nil
		write(t, s, "A", feedPage)
		farAhead := write(t, s, "A", feedPage)
		require.Empty(t, look(t, f, everything, farAhead).Records)
		require.EqualValues(t, 6, s.pages.Load())
		// He has opened another one.
		require.Empty(t, look(t, f, everything, farAhead).Records)
		require.EqualValues(t, 7, s.pages.Load())
	})
}

func TestFeedNeedsSomeRuns(t *testing.T) {
	s := &bentStore{Store: memstore.New()}
	f := joined(t, s, feedFrom-1)
	for i := range 3 {
		require.Empty(t, look(t, f, everything.Type("A"), consistency.Position{}).Records)
		require.EqualValues(t, i+1, s.pages.Load())
	}
	require.Nil(t, f.window)
	require.Same(t, f, joinFeed(s))
	look(t, f, everything, consistency.Position{})
	require.NotNil(t, f.window)
	f.leave()
	require.Nil(t, f.window)

	// Stores that cannot be told from each other share nothing.
	require.Nil(t, joinFeed(valueStore{s, []int{1}}))
	require.Len(t, look(t, &feed{store: s}, everything, consistency.Position{}).Records, 0)
	p, err := (*feed)(nil).page(t.Context(), s, everything, consistency.Position{}, 1, true)
	require.NoError(t, err)
	require.Empty(t, p.Records)
	(*feed)(nil).leave()
	require.NotSame(t, f, joined(t, memstore.New(), 1))
}

type valueStore struct {
	eventstore.Store
	_ []int
}

// Who was told of an event is not answered by a read that began before it.
func TestFeedAnswersNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bentStore{Store: memstore.New()}
		f := joined(t, s, 4)
		head := write(t, s, "A", 1)
		look(t, f, everything, head)
		s.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
			p, err := s.Store.Page(ctx, q, after, limit)
			time.Sleep(time.Second)
			return p, err
		}
		var old, told sync.WaitGroup
		old.Go(func() { require.Empty(t, look(t, f, everything, head).Records) })
		synctest.Wait()
		write(t, s, "B", 1)
		for range 10 {
			told.Go(func() { require.Equal(t, "B", types(look(t, f, everything, head))) })
		}
		told.Wait()
		old.Wait()
		require.EqualValues(t, 3, s.pages.Load())
	})
}

// An error of a shared read is all waiters' error, once. If it is only its
// reader's end, or his panic, another one reads.
func TestFeedErrorsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &bentStore{Store: memstore.New()}
		f := joined(t, s, 4)
		head := write(t, s, "A", 1)
		look(t, f, everything, head)
		last := write(t, s, "B", 1)

		s.page = func(context.Context, consistency.Query, consistency.Position, int) (eventstore.Page, error) {
			time.Sleep(time.Second)
			return eventstore.Page{}, errFeed
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				_, err := f.page(context.Background(), s, everything, head, 1, true)
				require.ErrorIs(t, err, errFeed)
			})
		}
		all.Wait()
		require.EqualValues(t, 2, s.pages.Load())

		mine, end := context.WithCancel(t.Context())
		for _, ends := range []func(context.Context) error{
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			func(ctx context.Context) error { <-ctx.Done(); panic(errFeed) },
		} {
			s.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
				if ctx == mine {
					return eventstore.Page{}, ends(ctx)
				}
				return s.Store.Page(ctx, q, after, limit)
			}
			all.Go(func() {
				defer func() { _ = recover() }()
				_, err := f.page(mine, s, everything, f.window.end, 1, true)
				require.ErrorIs(t, err, context.Canceled)
			})
			synctest.Wait()
			waits, giveUp := context.WithCancel(t.Context())
			gaveUp := make(chan error, 1)
			go func() {
				_, err := f.page(waits, s, everything, head, 1, true)
				gaveUp <- err
			}()
			synctest.Wait()
			giveUp()
			require.ErrorIs(t, <-gaveUp, context.Canceled)
			for range 10 {
				all.Go(func() { require.Equal(t, last, look(t, f, everything, head).UpTo) })
			}
			synctest.Wait()
			end()
			all.Wait()
			mine, end = context.WithCancel(t.Context())
			// for the panic, which has to find the window behind again
			f.window = &window{from: head, end: head, endID: idAt(s.Store, head)}
		}
		end()
	})
}

// A log that has less than the window, or another event there, ends the window,
// and each asks the store.
func TestFeedOfALogThatWentBack(t *testing.T) {
	for name, other := range map[string]int{"less": 2, "another": 3} {
		t.Run(name, func(t *testing.T) {
			s := &bentStore{Store: memstore.New()}
			f := joined(t, s, 4)
			head := write(t, s, "A", 1)
			look(t, f, everything, head)
			last := write(t, s, "A", 2)
			require.Equal(t, "AA", types(look(t, f, everything, head)))
			s.Store = memstore.New()
			write(t, s, "B", other)
			p := look(t, f, everything, last)
			require.Equal(t, consistency.NewPosition(0, uint64(other)), p.UpTo)
			require.Equal(t, idAt(s, p.UpTo), p.UpToID)
			require.Equal(t, strings.Repeat("B", other-1), types(look(t, f, everything, head)), "of the old log")
		})
	}
}

// A page that is out of order does not get into the window.
func TestFeedHoldsTheStoreToItsOrder(t *testing.T) {
	s := &bentStore{Store: memstore.New()}
	f := joined(t, s, 4)
	head := write(t, s, "A", 1)
	look(t, f, everything, head)
	write(t, s, "A", 2)
	s.page = func(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
		p, err := s.Store.Page(ctx, q, after, limit)
		p.Records[0], p.Records[1] = p.Records[1], p.Records[0]
		return p, err
	}
	_, err := f.page(t.Context(), s, everything, head, 10, true)
	require.ErrorContains(t, err, "breaks its promise of order")
	s.page = nil
	require.Equal(t, "AA", types(look(t, f, everything, head)))
}

// What the window keeps is bounded in events and in bytes.
func TestFeedKeepsALittle(t *testing.T) {
	s := &bentStore{Store: memstore.New()}
	f := joined(t, s, 4)
	look(t, f, everything, consistency.Position{})
	for range 12 {
		at := f.window.end
		write(t, s, "A", 1000)
		look(t, f, everything, at)
		require.LessOrEqual(t, len(f.window.events), feedEvents)
		require.LessOrEqual(t, cap(f.window.events), 3*feedEvents)
	}
	require.Len(t, f.window.events, feedEvents)
	require.Equal(t, consistency.NewPosition(0, 12_000-feedEvents), f.window.from)
	for range 12 {
		_, err := s.Append(t.Context(), []event.Record{{ID: uuid.New(), Type: "A", Data: json.RawMessage(`{"big":"` + strings.Repeat("x", 1<<20-100) + `"}`)}}, nil)
		require.NoError(t, err)
		look(t, f, everything, f.window.end)
	}
	require.Len(t, f.window.events, 7)
	require.LessOrEqual(t, f.window.size, feedBytes)
	size := 0
	for _, r := range f.window.events {
		size += sizeOf(r)
	}
	require.Equal(t, size, f.window.size)
}

// BenchmarkAlarm is what the alarm costs each event.
func BenchmarkAlarm(b *testing.B) {
	a := newAlarm(Config{Name: "a"}.withDefaults(), nil)
	defer a.stop()
	r := event.Record{ID: uuid.New(), Type: "A", Position: consistency.NewPosition(0, 1)}
	b.ReportAllocs()
	for b.Loop() {
		a.end(a.begin(&r))
	}
}
