package command_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/stretchr/testify/require"
)

// Each test here is a row of the table in docs/concepts/protocol.md: what goes
// wrong when a rule of the protocol is left out.

// appendFn and snapshotFn shorten hooks.
type (
	appendFn   = func() (eventstore.Receipt, error)
	snapshotFn = func() ([]eventstore.Result, error)
)

// loses lets the n-th append land and loses its answer.
func loses(n int) func(int, appendFn) (eventstore.Receipt, error) {
	return func(i int, do appendFn) (eventstore.Receipt, error) {
		r, err := do()
		if i == n && err == nil {
			return eventstore.Receipt{}, eventstore.Ambiguous
		}
		return r, err
	}
}

func TestIDIsPartOfTheContextRead(t *testing.T) {
	s := newStore(t)
	must(t, s, deposit{"ada", 100})
	s.appends, s.onAppend = 0, loses(1)
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), withdraw{Account: "ada", Cents: 60})
		require.NoError(t, err) // not refused on the balance that its own first attempt left
		require.True(t, out.Replayed)
		require.Equal(t, int64(40), out.State.Cents)
		require.Equal(t, 1, s.appends)
	})
}

func TestIDAndContextsAreReadAsOfOneMoment(t *testing.T) {
	s := newStore(t)
	must(t, s, deposit{"ada", 100})
	s.snapshots = 0
	s.onSnapshot = func(_ int, parts []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		require.Contains(t, parts, eventstore.Part{Query: consistency.Where(consistency.CommandKey, id(1).String())})
		require.Len(t, parts, 3, "all contexts are in the same read")
		return do()
	}
	_, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), transfer{"ada", "bob", 60})
	require.NoError(t, err)
	require.Equal(t, 1, s.snapshots)
}

func TestOpenAttemptsAreRemembered(t *testing.T) {
	s := newStore(t)
	var late appendFn
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		if n == 1 { // on its way
			late = do
			return eventstore.Receipt{}, eventstore.Ambiguous
		}
		return eventstore.Receipt{}, eventstore.Permanent
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
		endedAs(t, command.Unknown, command.ErrUnknown, out, err)
		_, err = late()
		require.NoError(t, err) // it landed after the answer: "failed" would have been false
	})
}

func TestOpenAttemptIsDroppedOnceItCannotLand(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		if n == 1 {
			return eventstore.Receipt{}, eventstore.Ambiguous // lost for good
		}
		return eventstore.Receipt{}, eventstore.Permanent
	}
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		if n == 2 {
			must(t, s.Store, deposit{"ada", 1}) // its query moves on
		}
		return do()
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
		endedAs(t, command.Failed, eventstore.Permanent, out, err)
	})
}

func TestNoRefusalOnRememberedState(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	_, err := command.Run(ctx, r, id(1), deposit{"ada", 10}) // remembered: 10
	require.NoError(t, err)
	must(t, s, deposit{"ada", 90}) // another replica's
	out, err := command.Run(ctx, r, id(2), withdraw{Account: "ada", Cents: 60})
	require.NoError(t, err)
	require.Equal(t, int64(40), out.State.Cents)
}

func TestNothingButASaveComesOfRememberedState(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	_, err := command.Run(ctx, r, id(1), deposit{"ada", 10})
	require.NoError(t, err)
	must(t, s, deposit{"ada", 90})
	c := rule("careful", about("ada"), func(a account) ([]event.Event, error) {
		if a.Cents != 100 {
			panic("a state that is no longer")
		}
		return nil, nil
	})
	out, err := command.Run(ctx, r, id(2), c)
	require.NoError(t, err)
	require.Equal(t, command.Nothing, out.Status)
}

func TestGuard(t *testing.T) {
	s := newStore(t)
	s.anyID = true // the guard alone stands between the two
	r := command.NewRunner(s, command.Config{})
	synctest.Test(t, func(t *testing.T) {
		first, err := command.Run(ctx, r, id(1), deposit{"ada", 10})
		require.NoError(t, err)
		again, err := command.Run(ctx, r, id(1), deposit{"ada", 10}) // on remembered state, after its own effect
		require.NoError(t, err)
		require.True(t, again.Replayed)
		require.Equal(t, first.Position, again.Position)
		require.Len(t, stored(t, s), 1)
	})
}

func TestReplayShowsTheStateRightAfterTheCommand(t *testing.T) {
	for name, view := range map[string]func(string) command.View[account]{
		"history": about,
		"latest":  func(id string) command.View[account] { return accounts.Latest(consistency.Where("accountId", id)) },
		"then": func(id string) command.View[account] {
			return command.Then(about(id), func(account) command.View[account] { return about("limits") },
				func(a, _ account) account { return a })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			c := rule("post", view("ada"), func(account) ([]event.Event, error) {
				return []event.Event{posted{"ada", 5}, posted{"ada", 7}}, nil
			})
			must(t, s, deposit{"ada", 10})
			run := func() (command.Outcome[account], error) {
				return command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
			}
			first, err := run()
			require.NoError(t, err)
			must(t, s, deposit{"ada", 100})
			must(t, s, deposit{"limits", 100})
			again, err := run()
			require.NoError(t, err)
			require.True(t, again.Replayed)
			again.Replayed, again.Attempts = first.Replayed, first.Attempts
			requireSame(t, first, again)
		})
	}
}

// requireSame compares outcomes: all that a caller sees.
func requireSame[S any](t *testing.T, first, again command.Outcome[S]) {
	t.Helper()
	require.Equal(t, first.Status, again.Status)
	require.Equal(t, first.State, again.State)
	require.Equal(t, first.Position, again.Position)
	require.Equal(t, first.Events, again.Events)
}

func TestThenIsResolvedOnTheStateBeforeTheCommand(t *testing.T) {
	s := newStore(t)
	// Where the first account is empty, the other one is "empty", else "full".
	view := command.Then(about("ada"), func(a account) command.View[account] {
		if a.Cents == 0 {
			return about("empty")
		}
		return about("full")
	}, func(a, b account) [2]int64 { return [2]int64{a.Cents, b.Cents} })
	c := rule("choose", view, func([2]int64) ([]event.Event, error) {
		return []event.Event{posted{"ada", 5}}, nil
	})
	run := func() command.Outcome[[2]int64] {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
		require.NoError(t, err)
		return out
	}
	// Once with the command's events as the very first of the log, too.
	for _, before := range []bool{false, true} {
		if s = newStore(t); before {
			must(t, s, deposit{"empty", 1})
			must(t, s, deposit{"full", 2})
		}
		first := run()
		must(t, s, deposit{"empty", 10})
		must(t, s, deposit{"full", 10})
		require.Equal(t, first.State, run().State)
		require.Equal(t, int64(5), first.State[0])
		if before {
			require.Equal(t, int64(1), first.State[1])
		}
	}
}

func TestConflictStaysOpen(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		_, err := do() // the transport doubled it: the copy landed
		require.NoError(t, err)
		return do() // and we hear of the other: conflict
	}
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 1}), id(1), deposit{"ada", 10})
	require.NoError(t, err) // not "contended, never applied"
	require.True(t, out.Replayed)
	require.Len(t, stored(t, s), 1)
}

func TestOwnEventsThatMatchNoContextAreNotFolded(t *testing.T) {
	s := newStore(t)
	c := rule("pay bob", about("ada"), func(account) ([]event.Event, error) {
		return []event.Event{posted{"ada", -5}, posted{"bob", 5}}, nil
	})
	for _, replayed := range []bool{false, true} {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
		require.NoError(t, err)
		require.Equal(t, replayed, out.Replayed)
		require.Equal(t, int64(-5), out.State.Cents)
	}
}

func TestFingerprint(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	_, err := command.Run(ctx, r, id(1), deposit{"ada", 10})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, r, id(1), deposit{"ada", 11})
		endedAs(t, command.Reused, command.ErrIDReused, out, err)
		out, err = command.Run(ctx, r, id(1), withdraw{Account: "ada", Cents: 10})
		endedAs(t, command.Reused, command.ErrIDReused, out, err)
	})
	require.Len(t, stored(t, s), 1)
}

func TestErrorWithoutKindIsAmbiguous(t *testing.T) {
	s := newStore(t)
	var late appendFn
	s.onAppend = func(n int, do appendFn) (eventstore.Receipt, error) {
		late = do
		return eventstore.Receipt{}, errors.New("broken pipe")
	}
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 1}), id(1), deposit{"ada", 10})
	endedAs(t, command.Unknown, command.ErrUnknown, out, err)
	_, err = late()
	require.NoError(t, err)
}

func TestNotAppliedIsNotOpen(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(int, appendFn) (eventstore.Receipt, error) { return eventstore.Receipt{}, eventstore.NotApplied }
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{MaxAttempts: 1}), id(1), deposit{"ada", 10})
	endedAs(t, command.Unavailable, command.ErrUnavailable, out, err)
}

func TestVolatileCommandRecordsWhatItSays(t *testing.T) {
	s := newStore(t)
	for _, minute := range []int{1, 2} { // a clock that says yes the second time
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), timed{"ada", minute})
		require.NoError(t, err)
		require.Equal(t, command.Nothing, out.Status)
		require.Equal(t, minute == 2, out.Replayed)
	}
}

type timed struct {
	Account string
	Minute  int `ccc:"-"`
}

func (timed) CommandName() string              { return "timed" }
func (c timed) Context() command.View[account] { return about(c.Account) }
func (c timed) Decide(account) ([]event.Event, error) {
	if c.Minute < 2 {
		return nil, nil
	}
	return []event.Event{posted{c.Account, 1}}, nil
}

func TestOnlyConfirmedSavesAreRemembered(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{MaxAttempts: 1})
	_, err := command.Run(ctx, r, id(1), deposit{"ada", 100})
	require.NoError(t, err)
	s.onAppend = func(int, appendFn) (eventstore.Receipt, error) { return eventstore.Receipt{}, eventstore.Ambiguous }
	out, err := command.Run(ctx, r, id(2), withdraw{Account: "ada", Cents: 60}) // never lands
	endedAs(t, command.Unknown, command.ErrUnknown, out, err)
	s.onAppend = nil
	out, err = command.Run(ctx, r, id(3), withdraw{Account: "ada", Cents: 60, Recorded: true})
	require.NoError(t, err)
	require.Equal(t, int64(40), out.State.Cents)
}

// tally is a state that cannot be kept: it refers to something.
type tally map[string]int64

func TestMovedMeansLater(t *testing.T) {
	s := newStore(t)
	tallies := command.NewModel(events, func(m tally, e event.Event) tally {
		if m == nil {
			m = tally{}
		}
		if p, ok := e.(posted); ok {
			m[p.Account] += p.Cents
		}
		return m
	})
	must(t, s, deposit{"ada", 50})
	stale, err := s.Store.Snapshot(ctx, eventstore.Part{Query: consistency.Where(consistency.CommandKey, id(1).String())},
		eventstore.Part{Query: consistency.Where("accountId", "ada")})
	require.NoError(t, err)
	must(t, s, deposit{"ada", 50})
	s.appends, s.snapshots, s.onAppend = 0, 0, loses(1)
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		if n == 2 {
			return stale, nil
		}
		return do()
	}
	c := rule("withdraw all", tallies.History(consistency.Where("accountId", "ada")), func(m tally) ([]event.Event, error) {
		if m["ada"] < 100 {
			return nil, errShort
		}
		return []event.Event{posted{"ada", -100}}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
		require.NoError(t, err) // not refused: the first attempt may land, and has
		require.True(t, out.Replayed)
	})
}

func TestHalfOfASaveIsNoAnswer(t *testing.T) {
	s := newStore(t)
	must(t, s, deposit{"ada", 100})
	_, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), transfer{"ada", "bob", 60})
	require.NoError(t, err)
	s.snapshots = 0
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		res, err := do()
		if n == 1 {
			res[0].Records = res[0].Records[:1]
		}
		return res, err
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), transfer{"ada", "bob", 60})
		require.NoError(t, err)
		require.Len(t, out.Events, 2)
		require.Equal(t, 2, out.Attempts)
	})
}
