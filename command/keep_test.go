package command_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/stretchr/testify/require"
)

// shelf is a state that refers to a map, and can be cloned.
type shelf struct{ Books map[string]int64 }

func (s shelf) Clone() shelf {
	out := shelf{Books: map[string]int64{}}
	for k, v := range s.Books {
		out.Books[k] = v
	}
	return out
}

func TestNobodyTouchesWhatIsKept(t *testing.T) {
	s := newStore(t)
	shelves := command.NewModel(events, func(m shelf, e event.Event) shelf {
		if m.Books == nil {
			m.Books = map[string]int64{}
		}
		if p, ok := e.(posted); ok {
			m.Books[p.Account] += p.Cents // in place
		}
		return m
	})
	r := command.NewRunner(s, command.Config{})
	add := rule("add", shelves.History(consistency.Where("accountId", "ada")), func(m shelf) ([]event.Event, error) {
		m.Books["ada"] = 1000 // an impure Decide
		return []event.Event{posted{"ada", 1}}, nil
	})
	add.View = hidden[command.View[shelf]]{shelves.History(consistency.Where("accountId", "ada"))}
	must(t, s, deposit{"ada", 1})
	for n := range 5 {
		s.appends, s.snapshots = 0, 0
		if n == 3 {
			must(t, s, deposit{"ada", 1}) // a conflict, and a catch-up
			s.appends, s.snapshots = 0, 0
		}
		out, err := command.Run(ctx, r, id(n), add)
		require.NoError(t, err)
		require.Equal(t, int64(n+2+n/3), out.State.Books["ada"])
		out.State.Books["ada"] = -5 // an impure caller
	}
}

func TestStatesThatCannotBeKeptAreReadEachTime(t *testing.T) {
	s := newStore(t)
	m := command.NewModel(events, func(m tally, e event.Event) tally { return m })
	c := rule("map", m.History(consistency.Where("accountId", "ada")), func(tally) ([]event.Event, error) { return []event.Event{opened{"ada"}}, nil })
	r := command.NewRunner(s, command.Config{})
	for n := range 3 {
		s.snapshots = 0
		_, err := command.Run(ctx, r, id(n), c)
		require.NoError(t, err)
		require.Equal(t, 1, s.snapshots)
	}
}

func TestCacheIsBoundedByWeight(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{CacheBytes: 10_000}) // about thirty accounts
	const many = 1000
	for n := range many {
		_, err := command.Run(ctx, r, command.NewID(), deposit{id(n).String(), 1})
		require.NoError(t, err)
	}
	s.snapshots = 0
	for n := range many {
		_, err := command.Run(ctx, r, command.NewID(), deposit{id(n).String(), 1})
		require.NoError(t, err)
	}
	require.Greater(t, s.snapshots, many*9/10)
}

func TestCollidingCommandsQueueUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.onAppend = func(_ int, do appendFn) (eventstore.Receipt, error) {
			time.Sleep(time.Millisecond) // so that everybody collides who can
			return do()
		}
		r := command.NewRunner(s, command.Config{})
		const writers, each = 64, 10
		var attempts, most atomic.Int64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					out, err := command.Run(ctx, r, command.NewID(), deposit{"ada", 1})
					if err != nil {
						t.Error(err)
					}
					attempts.Add(int64(out.Attempts))
					for m := most.Load(); int64(out.Attempts) > m && !most.CompareAndSwap(m, int64(out.Attempts)); m = most.Load() {
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d commands, %d attempts, at most %d for one", writers*each, attempts.Load(), most.Load())
		require.LessOrEqual(t, most.Load(), int64(3), "nobody starves")
		require.Len(t, stored(t, s), writers*each)
		require.LessOrEqual(t, float64(attempts.Load())/(writers*each), 2.0, "attempts per success")
	})
}

func TestContextsThatNobodyMovesDoNotHoldCommandsUp(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	must(t, s, deposit{"settings", 1})
	pay := func(who string) do[account] {
		return rule("pay", command.Join(about("settings"), about(who), func(_, a account) account { return a }),
			func(account) ([]event.Event, error) { return []event.Event{posted{who, 1}}, nil })
	}
	synctest.Test(t, func(t *testing.T) {
		// A collision on one account, whose command reads the settings too.
		s.appends = 0
		s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
			if n == 1 {
				must(t, s.Store, deposit{"eve", 1})
			}
			return do()
		}
		out, err := command.Run(ctx, r, command.NewID(), pay("eve"))
		require.NoError(t, err)
		require.Equal(t, 2, out.Attempts)

		// Then two commands that read the settings are both in their append at
		// once: it was the account that moved.
		var inside atomic.Int64
		both := make(chan struct{})
		s.onAppend = func(_ int, do appendFn) (eventstore.Receipt, error) {
			if inside.Add(1) == 2 {
				close(both)
			}
			<-both
			return do()
		}
		var wg sync.WaitGroup
		for _, who := range []string{"ada", "bob"} {
			wg.Go(func() {
				if _, err := command.Run(ctx, r, command.NewID(), pay(who)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}
