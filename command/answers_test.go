package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Sentinels exclude each other.
func TestSentinelsExcludeEachOther(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		return eventstore.Receipt{}, errors.New("broken pipe")
	}
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 1}), id(1), deposit{"ada", 10})
	require.Equal(t, command.Unknown, out.Status)
	require.NotErrorIs(t, err, command.ErrUnavailable)
}

// Unknown must not look refused.
func TestUnknownIsNoRefusal(t *testing.T) {
	s := newStore(t)
	must(t, s, deposit{"ada", 50})
	stale, err := s.Store.Snapshot(ctx, eventstore.Part{Query: consistency.Where(consistency.CommandKey, id(1).String())},
		eventstore.Part{Query: consistency.Where("accountId", "ada")})
	require.NoError(t, err)
	must(t, s, deposit{"ada", 50})
	s.appends, s.snapshots, s.onAppend = 0, 0, loses(1)
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		if n >= 2 {
			return stale, nil
		}
		return do()
	}
	tallies := command.NewModel(events, func(m tally, e event.Event) tally {
		if m == nil {
			m = tally{}
		}
		if p, ok := e.(posted); ok {
			m[p.Account] += p.Cents
		}
		return m
	})
	c := rule("withdraw all", tallies.History(consistency.Where("accountId", "ada")), func(m tally) ([]event.Event, error) {
		if m["ada"] < 100 {
			return nil, errShort
		}
		return []event.Event{posted{"ada", -100}}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 3}), id(1), c)
		require.Equal(t, command.Unknown, out.Status)
		require.NotErrorIs(t, err, errShort)
	})
}

// A repeat is one read, also after later events.
func TestRepeatIsOneReadAfterLaterEventsToo(t *testing.T) {
	s := newStore(t)
	cold := func() *command.Runner { return command.NewRunner(s, command.Config{}) }
	require.NoError(t, call(cold(), 1, deposit{"ada", 1})())
	must(t, s, deposit{"ada", 5})
	s.snapshots = 0
	require.NoError(t, call(cold(), 1, deposit{"ada", 1})())
	require.Equal(t, 1, s.snapshots)
}

// Found in the log, but "failed".
func TestFoundInTheLogIsNotFailed(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		_, err := do() // the first copy lands
		require.NoError(t, err)
		return eventstore.Receipt{}, fmt.Errorf("%w: %w", eventstore.Permanent, eventstore.ErrDuplicateEvent)
	}
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		if n == 3 {
			return nil, errors.New("no route") // 1: read, 2: last look, 3: state of the replay
		}
		return do()
	}
	out, _ := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 10})
	require.Len(t, stored(t, s), 1)
	require.NotEqual(t, command.Failed, out.Status)
}

type heavy struct{ N int64 }

func (heavy) Weight() int { panic("weight") }

// A Weight that panics.
func TestWeightThatPanicsUndoesNoSave(t *testing.T) {
	s := newStore(t)
	m := command.NewModel(events, func(h heavy, e event.Event) heavy { h.N++; return h })
	c := rule("heavy", m.History(consistency.Where("accountId", "ada")), func(heavy) ([]event.Event, error) {
		return []event.Event{posted{"ada", 1}}, nil
	})
	r := command.NewRunner(s, command.Config{})
	for n := range 3 {
		done := make(chan error, 1)
		go func() { _, err := command.Run(ctx, r, id(n), c); done <- err }()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(3 * time.Second):
			t.Fatalf("command %d hangs", n)
		}
	}
}

// Settings that nobody moves hold nobody up for ever.
func TestCollisionDoesNotSerialiseWhoNeverCollides(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{MaxElapsed: time.Hour})
	must(t, s, deposit{"settings", 1})
	pay := func(who string) do[account] {
		return rule("pay", command.Join(about("settings"), about(who), func(_, a account) account { return a }),
			func(account) ([]event.Event, error) { return []event.Event{posted{who, 1}}, nil })
	}
	synctest.Test(t, func(t *testing.T) {
		var collide atomic.Bool
		s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
			time.Sleep(10 * time.Millisecond)
			if collide.Swap(false) {
				for i := range 8 { // one collision of whoever this is
					must(t, s.Store, deposit{fmt.Sprint("w", i), 1})
				}
			}
			return do()
		}
		ctx, cancel := context.WithCancel(ctx)
		var count atomic.Int64
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := command.Run(context.Background(), r, command.NewID(), pay(fmt.Sprint("w", w))); err != nil {
						t.Error(err)
					}
					count.Add(1)
				}
			})
		}
		per := func() int64 { b := count.Load(); time.Sleep(10 * time.Second); return count.Load() - b }
		before := per()
		collide.Store(true)
		time.Sleep(30 * time.Second)
		after := per()
		cancel()
		wg.Wait()
		t.Logf("%d before, %d thirty seconds after", before, after)
		require.Greater(t, after, before*8/10)
	})
}

// A repeat is no collision.
func TestRepeatIsNoCollision(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	must(t, s, deposit{"settings", 1})
	pay := func(who string) do[account] {
		return rule("pay", command.Join(about("settings"), about(who), func(_, a account) account { return a }),
			func(account) ([]event.Event, error) { return []event.Event{posted{who, 1}}, nil })
	}
	synctest.Test(t, func(t *testing.T) {
		for range 2 { // the second is a repeat from the cache
			_, err := command.Run(ctx, r, id(1), pay("eve"))
			require.NoError(t, err)
		}
		var inside atomic.Int64
		both := make(chan struct{})
		s.onAppend = func(_ int, do appendFn) (eventstore.Receipt, error) {
			if inside.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
			case <-time.After(time.Second):
				t.Error("held up")
			}
			return do()
		}
		var wg sync.WaitGroup
		for _, who := range []string{"ada", "bob"} {
			wg.Go(func() { _, _ = command.Run(ctx, r, command.NewID(), pay(who)) })
		}
		wg.Wait()
	})
}

// A marker is no domain event.
func TestMarkersAreNotForDecide(t *testing.T) {
	s := newStore(t)
	c := rule("marker", about("ada"), func(account) ([]event.Event, error) { return []event.Event{event.Marker{}}, nil })
	run := func() command.Outcome[account] {
		out, _ := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
		return out
	}
	require.Equal(t, command.Failed, run().Status)
}

type odd struct {
	N int `json:"n"`
}

func (odd) EventType() string            { return "Odd" }
func (odd) Error() string                { return "odd" }
func (odd) MarshalJSON() ([]byte, error) { return []byte(`{"n":"x"}`), nil }
func (o *odd) UnmarshalJSON(b []byte) error {
	var x struct{ N int }
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	o.N = x.N
	return nil
}

// A refusal that cannot be read back is not saved.
func TestRefusalThatCannotBeReadBackIsNotSaved(t *testing.T) {
	s := newStore(t)
	c2 := event.NewCodec(event.Of[opened](), event.Of[odd]())
	m := command.NewModel(c2, account.evolve)
	c := rule("odd", m.History(consistency.Where("accountId", "ada")), func(account) ([]event.Event, error) { return nil, odd{1} })
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
	endedWith(t, command.Failed, out, err)
	require.Empty(t, stored(t, s))
}

// An event that meets no context and cannot be read back.
func TestEventThatCannotBeReadBackIsNotSaved(t *testing.T) {
	s := newStore(t)
	c2 := event.NewCodec(event.Of[opened](), event.Of[odd]())
	m := command.NewModel(c2, account.evolve)
	c := rule("odd", m.History(consistency.Where("accountId", "ada").Type("AccountOpened")), func(account) ([]event.Event, error) { return []event.Event{odd{1}}, nil })
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
	endedWith(t, command.Failed, out, err)
	require.Empty(t, stored(t, s))
}

// A chain of choices deeper than 16.
func TestDeepChoices(t *testing.T) {
	s := newStore(t)
	var chain func(n int) command.View[account]
	chain = func(n int) command.View[account] {
		if n == 0 {
			return about("end")
		}
		return command.Then(about(fmt.Sprint("n", n)), func(account) command.View[account] { return chain(n - 1) }, func(a, _ account) account { return a })
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), rule("deep", chain(17), func(account) ([]event.Event, error) { return []event.Event{noted{"x"}}, nil }))
		require.Equal(t, 1, out.Attempts)
		require.NoError(t, err)
	})
}

// A refusal that only the second codec knows.
func TestRefusalOfTheSecondCodec(t *testing.T) {
	s := newStore(t)
	ca := event.NewCodec(event.Of[opened](), event.Of[posted]())
	cb := event.NewCodec(event.Of[noted](), event.Of[short]())
	ma, mb := command.NewModel(ca, account.evolve), command.NewModel(cb, func(n int, _ event.Event) int { return n + 1 })
	c := rule("two", command.Join(ma.History(consistency.Where("accountId", "ada")), mb.History(consistency.Where("note", "x")), func(a account, _ int) account { return a }),
		func(account) ([]event.Event, error) { return nil, short{3} })
	for range 2 {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
		endedAs(t, command.Refused, short{3}, out, err)
	}
}

// A stale cache and one attempt.
func TestOldRememberedStateCostsNoAttempt(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{MaxAttempts: 1})
	_, err := command.Run(ctx, r, id(1), deposit{"ada", 1})
	require.NoError(t, err)
	must(t, s, deposit{"ada", 1}) // another replica's, once
	ok := false
	for n := range 10 {
		_, err := command.Run(ctx, r, id(10+n), deposit{"ada", 1})
		ok = ok || err == nil
	}
	require.True(t, ok, "contended for ever, with nobody else there")
}

var asked int

// flatw is flat, and says what it weighs.
type flatw struct{ N int64 }

func (flatw) Weight() int { asked++; return 1 }

func TestWeightIsAsked(t *testing.T) {
	s := newStore(t)
	m := command.NewModel(events, func(h flatw, e event.Event) flatw { h.N++; return h })
	c := rule("heavy", m.History(consistency.Where("accountId", "ada")), func(flatw) ([]event.Event, error) {
		return []event.Event{posted{"ada", 1}}, nil
	})
	_, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
	require.NoError(t, err)
	require.NotZero(t, asked)
}

// Markers are nobody's facts, also with a refusal of another codec
func TestMarkersWithRefusalsOfOtherCodecs(t *testing.T) {
	s := newStore(t)
	must(t, s, deposit{"ada", 1})
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), withdraw{"ada", 30, true})
	endedAs(t, command.Refused, short{29}, out, err)
	small := event.NewCodec(event.Of[opened](), event.Of[posted](), event.Of[noted]())
	m := command.NewModel(small, func(n int, _ event.Event) int { return n + 1 })
	out2, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(2), rule("count", m.History(consistency.All()), func(int) ([]event.Event, error) { return []event.Event{noted{"x"}}, nil }))
	require.NoError(t, err)
	require.Equal(t, 2, out2.State)
}

func endedWith[S any](t *testing.T, status command.Status, out command.Outcome[S], err error) {
	t.Helper()
	require.Equal(t, status, out.Status, "%v", err)
	require.Error(t, err)
}

// A store that panics, in the last look too.
func TestStoreThatPanics(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(int, appendFn) (eventstore.Receipt, error) { panic("append") }
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		if n > 1 {
			panic("snapshot")
		}
		return do()
	}
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
	endedAs(t, command.Unknown, command.ErrUnknown, out, err)

	out, err = command.Run(ctx, nil, id(1), deposit{"ada", 1})
	endedAs(t, command.Failed, command.ErrMisuse, out, err)
}

// An attempt that runs into the call's limit tells less than the one before it.
func TestTheReasonIsKept(t *testing.T) {
	s := newStore(t)
	full := errors.New("locked")
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		if n > 1 {
			return eventstore.Receipt{}, fmt.Errorf("%w: %w", eventstore.NotApplied, context.DeadlineExceeded)
		}
		return eventstore.Receipt{}, fmt.Errorf("%w: %w", eventstore.NotApplied, full)
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
		endedAs(t, command.Unavailable, full, out, err)
	})
}
