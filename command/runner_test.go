package command_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestStoreCalls(t *testing.T) {
	s := newStore(t)
	warm, cold := command.NewRunner(s, command.Config{}), func() *command.Runner { return command.NewRunner(s, command.Config{}) }
	latest := rule("latest", accounts.Latest(consistency.Where("accountId", "ada")), func(account) ([]event.Event, error) {
		return []event.Event{posted{"ada", 1}}, nil
	})
	for _, c := range []struct {
		name           string
		run            func() error
		reads, appends int
	}{
		{"fresh", call(cold(), 1, deposit{"ada", 1}), 1, 1},
		{"first of a warm runner", call(warm, 2, deposit{"ada", 1}), 1, 1},
		{"fresh with cached state", call(warm, 3, deposit{"ada", 1}), 0, 1},
		{"repeat", call(cold(), 3, deposit{"ada", 1}), 1, 0},
		{"repeat from a cache", call(warm, 3, deposit{"ada", 1}), 2, 1},
		{"latest", call(cold(), 4, latest), 1, 1},
		{"repeat of latest, nothing after it", call(cold(), 4, latest), 1, 0},
		{"other", call(cold(), 5, deposit{"ada", 1}), 1, 1},
		{"repeat of latest, something after it", call(cold(), 4, latest), 2, 0},
		{"refusal", call(cold(), 6, withdraw{Account: "ada", Cents: 1000}), 1, 0},
		{"refusal recorded", call(cold(), 7, withdraw{"ada", 1000, true}), 1, 1},
		{"first of a warm runner again", call(warm, 8, deposit{"ada", 1}), 1, 2}, // others wrote
		{"refusal recorded from a cache", call(warm, 9, withdraw{"ada", 1000, true}), 0, 1},
		{"refusal from a cache", call(warm, 10, withdraw{Account: "ada", Cents: 1000}), 1, 0},
		{"no context", call(cold(), 11, rule("note", accounts.None(), note)), 0, 1},
		{"no context, repeated", call(cold(), 11, rule("note", accounts.None(), note)), 1, 1},
	} {
		s.snapshots, s.appends = 0, 0
		if err := c.run(); err != nil {
			require.ErrorIs(t, err, errAny, c.name)
		}
		require.Equal(t, [2]int{c.reads, c.appends}, [2]int{s.snapshots, s.appends}, c.name)
	}
}

// A first try on remembered state costs no pause: what it saved was the read.
func TestRepeatFromACacheTakesNoTime(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 2 {
			_, err := command.Run(ctx, r, id(1), deposit{"ada", 1})
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(began))
	})
}

func note(account) ([]event.Event, error) { return []event.Event{noted{"x"}}, nil }

// errAny is met by every refusal of the tests.
var errAny = errShort

func (short) Is(err error) bool { return err == errShort }

func call[C command.Command[S], S any](r *command.Runner, n int, c C) func() error {
	return func() error {
		_, err := command.Run(ctx, r, id(n), c)
		return err
	}
}

func TestRecordedRefusalIsTheLastWord(t *testing.T) {
	s := newStore(t)
	run := func() (command.Outcome[account], error) {
		return command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), withdraw{"ada", 30, true})
	}
	must(t, s, deposit{"ada", 10})
	first, err := run()
	endedAs(t, command.Refused, short{20}, first, err)
	require.Equal(t, int64(10), first.State.Cents)
	must(t, s, deposit{"ada", 100})
	again, err := run()
	endedAs(t, command.Refused, short{20}, again, err)
	require.True(t, again.Replayed)
	requireSame(t, first, again)

	// Nobody's context and no stream of domain events shows the marker.
	out := must(t, s, deposit{"ada", 1})
	require.Equal(t, int64(111), out.State.Cents)
	found, err := s.Store.Snapshot(ctx, eventstore.Part{Query: consistency.Where("accountId", "ada")})
	require.NoError(t, err)
	require.Len(t, found[0].Records, 3)
}

func TestNothing(t *testing.T) {
	s := newStore(t)
	c := rule("nothing", about("ada"), func(account) ([]event.Event, error) { return nil, nil })
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
	require.NoError(t, err)
	require.Equal(t, command.Nothing, out.Status)
	require.Empty(t, stored(t, s))
	for _, replayed := range []bool{false, true} {
		out, err = command.Run(ctx, command.NewRunner(s, command.Config{RecordRefusals: true}), id(1), c)
		require.NoError(t, err)
		require.Equal(t, command.Nothing, out.Status)
		require.Equal(t, replayed, out.Replayed)
		require.Len(t, stored(t, s), 1)
	}
}

// What a context asks for holds for its calls alone, over one runner.
func TestRecordedRefusalsOfACall(t *testing.T) {
	s := newStore(t)
	r := command.NewRunner(s, command.Config{})
	recording := command.WithMetadata(command.WithRecordedRefusals(ctx), map[string]string{"actor": "eve"})
	nothing := rule("nothing", about("ada"), func(account) ([]event.Event, error) { return nil, nil })

	_, err := command.Run(ctx, r, id(1), nothing)
	require.NoError(t, err)
	require.Empty(t, stored(t, s))
	for _, replayed := range []bool{false, true} {
		out, err := command.Run(recording, r, id(1), nothing)
		require.NoError(t, err)
		require.Equal(t, command.Nothing, out.Status)
		require.Equal(t, replayed, out.Replayed)
	}
	require.Equal(t, "eve", stored(t, s)[0].Metadata.Custom["actor"])

	out, err := command.Run(ctx, r, id(2), withdraw{Account: "ada", Cents: 1})
	endedAs(t, command.Refused, errShort, out, err)
	out, err = command.Run(recording, r, id(2), withdraw{Account: "ada", Cents: 1})
	endedAs(t, command.Failed, command.ErrMisuse, out, err)
	require.Len(t, stored(t, s), 1)
}

func TestMisuse(t *testing.T) {
	s := newStore(t)
	view := about("ada")
	say := func(events []event.Event, err error) do[account] {
		return rule("say", view, func(account) ([]event.Event, error) { return events, err })
	}
	type unknownEvent struct{ opened }
	for name, c := range map[string]struct {
		command do[account]
		config  command.Config
		want    error
		says    string
	}{
		"events and an error":     {say([]event.Event{opened{}}, errShort), command.Config{}, command.ErrMisuse, "one of both"},
		"nil event":               {say([]event.Event{nil}, nil), command.Config{}, command.ErrMisuse, "nil event"},
		"plain refusal, recorded": {say(nil, errShort), command.Config{RecordRefusals: true}, command.ErrMisuse, "event type"},
		"event of no codec":       {say([]event.Event{unknownEvent{}}, nil), command.Config{}, event.ErrUnknownType, "unknownEvent"},
		"zero view":               {rule("zero", command.View[account]{}, note), command.Config{}, command.ErrMisuse, "zero View"},
		"mistyped key":            {rule("typo", accounts.History(consistency.Where("acountId", "x")), note), command.Config{}, event.ErrQueryKey, "accountId"},
		"context of command IDs":  {rule("ids", accounts.History(consistency.Where("commandId", "x")), note), command.Config{}, command.ErrMisuse, "commandId"},
		"latest of all":           {rule("all", accounts.Latest(consistency.All()), note), command.Config{}, command.ErrMisuse, "type or a key"},
		"no name":                 {rule("", view, note), command.Config{}, command.ErrMisuse, "CommandName"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command.Run(ctx, command.NewRunner(s, c.config), id(1), c.command)
			endedAs(t, command.Failed, c.want, out, err)
			require.ErrorContains(t, err, c.says)
		})
	}
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), uuid.Nil, deposit{"ada", 1})
	endedAs(t, command.Failed, command.ErrNoID, out, err)
	out, err = command.Run(command.WithMetadata(ctx, map[string]string{"ccc.command": "x"}), command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
	endedAs(t, command.Failed, command.ErrMisuse, out, err)
	require.Empty(t, stored(t, s))
}

func TestPanics(t *testing.T) {
	evil := command.NewModel(events, func(account, event.Event) account { panic("evolve") })
	for name, c := range map[string]do[account]{
		"decide": rule("d", about("ada"), func(account) ([]event.Event, error) { panic("decide") }),
		"evolve": rule("e", evil.History(consistency.Where("accountId", "ada")), note),
		"own":    rule("o", evil.History(consistency.Where("accountId", "eve")), func(account) ([]event.Event, error) { return []event.Event{opened{"eve"}}, nil }),
		"view":   rule("v", command.Join(about("ada"), about("bob"), func(a, b account) account { panic("view") }), note),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			must(t, s, deposit{"ada", 1})
			s.appends = 0
			out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
			var p *command.PanicError
			require.ErrorAs(t, err, &p)
			require.Contains(t, string(p.Stack), "runner_test.go")
			require.Equal(t, command.Failed, out.Status)
			require.Zero(t, s.appends, "an event that cannot be folded is not saved")
		})
	}
}

func TestPanicWhileAnAttemptIsOpenIsUnknown(t *testing.T) {
	s := newStore(t)
	s.onAppend = func(int, appendFn) (eventstore.Receipt, error) { return eventstore.Receipt{}, eventstore.Ambiguous }
	calls := 0
	c := rule("once", about("ada"), func(account) ([]event.Event, error) {
		if calls++; calls > 1 {
			panic("second")
		}
		return []event.Event{opened{"ada"}}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{CacheBytes: -1}), id(1), c)
		endedAs(t, command.Unknown, command.ErrUnknown, out, err)
	})
}

func TestUnreadableEventFailsTheCommand(t *testing.T) {
	s := newStore(t)
	for name, r := range map[string]event.Record{
		"unknown type": {ID: uuid.New(), Type: "Foreign", Data: []byte(`{"accountId":"ada"}`)},
		"bad payload":  {ID: uuid.New(), Type: "MoneyPosted", Data: []byte(`{"accountId":"bob","cents":7}`)},
	} {
		_, err := s.Store.Append(ctx, []event.Record{r}, nil)
		require.NoError(t, err)
		who := map[string]string{"unknown type": "ada", "bad payload": "bob"}[name]
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{who, 1})
		require.Equal(t, command.Failed, out.Status)
		require.ErrorContains(t, err, r.ID.String())
	}
}

func TestReplayThatCannotBeRebuiltIsNotCalledFailed(t *testing.T) {
	s := newStore(t)
	broken := false
	m := command.NewModel(events, func(a account, e event.Event) account {
		if broken {
			panic("a new version")
		}
		return a
	})
	c := rule("open", m.History(consistency.Where("accountId", "ada")), func(account) ([]event.Event, error) { return []event.Event{opened{"ada"}}, nil })
	run := func() (command.Outcome[account], error) {
		return command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), c)
	}
	_, err := run()
	require.NoError(t, err)
	broken = true
	out, err := run()
	require.NotEqual(t, command.Failed, out.Status)
	require.Equal(t, command.Unknown, out.Status)
	require.ErrorIs(t, err, command.ErrUnknown)
}

func TestMetadata(t *testing.T) {
	s := newStore(t)
	clock := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.FixedZone("far", 3600))
	r := command.NewRunner(s, command.Config{Clock: func() time.Time { return clock }})
	caller := command.WithMetadata(command.WithMetadata(ctx, map[string]string{"actor": "eve"}), map[string]string{"tenant": "t1"})
	first, err := command.Run(caller, r, id(1), transfer{"ada", "bob", 0})
	require.NoError(t, err)
	require.Len(t, first.Events, 2)
	for i, e := range first.Events {
		require.Equal(t, event.DerivedID(id(1), i), e.ID)
		require.Equal(t, clock.UTC().Truncate(time.Microsecond), e.Time)
		m := e.Metadata
		require.Equal(t, "transfer", m.Command)
		require.Equal(t, 2, m.Events)
		require.Equal(t, id(1).String(), m.Correlation)
		require.Equal(t, id(1).String(), m.Causation)
		require.Equal(t, map[string]string{"actor": "eve", "tenant": "t1"}, m.Custom)
	}
	require.Equal(t, id(1), first.Events[0].ID)

	again, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), transfer{"ada", "bob", 0})
	require.NoError(t, err)
	requireSame(t, first, again) // the first caller's metadata and time

	next, err := command.Run(command.WithCause(ctx, first.Events[1]), r, id(2), deposit{"ada", 1})
	require.NoError(t, err)
	m := next.Events[0].Metadata
	require.Equal(t, first.Events[1].ID.String(), m.Causation)
	require.Equal(t, id(1).String(), m.Correlation)
	require.Equal(t, 1, m.Depth)

	foreign := event.Record{ID: uuid.New()} // began it all, as far as anybody knows
	last, err := command.Run(command.WithCause(ctx, foreign), r, id(3), deposit{"ada", 1})
	require.NoError(t, err)
	require.Equal(t, foreign.ID.String(), last.Events[0].Metadata.Correlation)

	decoded, err := first.Decoded()
	require.NoError(t, err)
	require.Equal(t, []event.Event{posted{"ada", 0}, posted{"bob", 0}}, decoded)
}

func TestKeyID(t *testing.T) {
	seen := map[uuid.UUID]bool{}
	for _, k := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"a", "b"}, {"a", "\x00"}, {"a\x00", "b"}} {
		one, err := command.KeyID(k[0], k[1])
		require.NoError(t, err)
		two, _ := command.KeyID(k[0], k[1])
		require.Equal(t, one, two)
		require.False(t, seen[one])
		seen[one] = true
	}
	one, _ := command.KeyID("scope", "key") // a stored format: never another
	require.Equal(t, "7cb0bdd6-8c6a-55fc-bba4-a31f793b6d06", one.String())
	_, err := command.KeyID("a", "")
	require.ErrorIs(t, err, command.ErrNoID)
}

func TestPermanentReadErrorEndsTheCall(t *testing.T) {
	s := newStore(t)
	s.onSnapshot = func(int, []eventstore.Part, snapshotFn) ([]eventstore.Result, error) {
		return nil, eventstore.Closed()
	}
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
	endedAs(t, command.Failed, eventstore.ErrClosed, out, err)
	require.Equal(t, 1, out.Attempts)
}

func TestForeignEventsUnderAnID(t *testing.T) {
	s := newStore(t)
	foreign := func(n int) {
		_, err := s.Store.Append(ctx, []event.Record{{ID: uuid.New(), Type: "Noted", Data: []byte(`{"commandId":"` + id(n).String() + `"}`)}}, nil)
		require.NoError(t, err)
	}
	r := command.NewRunner(s, command.Config{})
	first, err := command.Run(ctx, r, id(1), deposit{"ada", 1})
	require.NoError(t, err)
	foreign(1)
	again, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
	require.NoError(t, err)
	requireSame(t, first, again)

	foreign(2) // before ours: the ID is taken
	out, err := command.Run(ctx, r, id(2), deposit{"bob", 1})
	endedAs(t, command.Reused, command.ErrIDReused, out, err)
}

func TestMarkersAreNobodysFacts(t *testing.T) {
	s := newStore(t)
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), withdraw{"ada", 30, true})
	endedAs(t, command.Refused, short{30}, out, err)
	count := command.NewModel(events, func(n int, _ event.Event) int { return n + 1 })
	all := rule("count", count.History(consistency.All()), func(n int) ([]event.Event, error) {
		require.Zero(t, n)
		return []event.Event{noted{"x"}}, nil
	})
	for _, replayed := range []bool{false, true} {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(2), all)
		require.NoError(t, err)
		require.Equal(t, replayed, out.Replayed)
		require.Equal(t, 1, out.State)
	}
}

func TestReadErrorsAreRetried(t *testing.T) {
	s := newStore(t)
	s.onSnapshot = func(n int, _ []eventstore.Part, do snapshotFn) ([]eventstore.Result, error) {
		if n < 4 {
			return nil, errors.New("no route")
		}
		return do()
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), id(1), deposit{"ada", 1})
		require.NoError(t, err)
		require.Equal(t, 4, out.Attempts)
	})
}
