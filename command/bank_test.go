package command_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A small bank for the tests of this package.

type opened struct {
	Account string `json:"accountId"`
}

type posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"`
}

// noted is a fact that no context of the tests meets.
type noted struct {
	Note string `json:"note"`
}

// short is a refusal that is recorded.
type short struct {
	Missing int64 `json:"missing,string"`
}

func (opened) EventType() string { return "AccountOpened" }
func (posted) EventType() string { return "MoneyPosted" }
func (noted) EventType() string  { return "Noted" }
func (short) EventType() string  { return "WithdrawalRefused" }
func (s short) Error() string    { return fmt.Sprintf("%d cents are missing", s.Missing) }

type account struct {
	Open  bool
	Cents int64
}

func (a account) evolve(e event.Event) account {
	switch e := e.(type) {
	case opened:
		a.Open = true
	case posted:
		a.Cents += e.Cents
	}
	return a
}

var (
	events   = event.NewCodec(event.Of[opened](), event.Of[posted](), event.Of[noted](), event.Of[short]())
	accounts = command.NewModel(events, account.evolve)
	errShort = errors.New("not that much money")
)

func about(id string) command.View[account] {
	return accounts.History(consistency.Where("accountId", id))
}

type deposit struct {
	Account string
	Cents   int64
}

func (deposit) CommandName() string              { return "deposit" }
func (c deposit) Context() command.View[account] { return about(c.Account) }
func (c deposit) Decide(account) ([]event.Event, error) {
	return []event.Event{posted{c.Account, c.Cents}}, nil
}

// withdraw refuses with a plain error, or, where Recorded, with one that is
// recorded.
type withdraw struct {
	Account  string
	Cents    int64
	Recorded bool
}

func (withdraw) CommandName() string              { return "withdraw" }
func (c withdraw) Context() command.View[account] { return about(c.Account) }
func (c withdraw) Decide(a account) ([]event.Event, error) {
	switch {
	case a.Cents >= c.Cents:
		return []event.Event{posted{c.Account, -c.Cents}}, nil
	case c.Recorded:
		return nil, short{c.Cents - a.Cents}
	}
	return nil, errShort
}

type transfer struct {
	From, To string
	Cents    int64
}

func (transfer) CommandName() string { return "transfer" }
func (c transfer) Context() command.View[map[string]account] {
	return command.Each(about, c.From, c.To)
}
func (c transfer) Decide(a map[string]account) ([]event.Event, error) {
	if a[c.From].Cents < c.Cents {
		return nil, errShort
	}
	return []event.Event{posted{c.From, -c.Cents}, posted{c.To, c.Cents}}, nil
}

// do is a command made of functions, for single tests.
type do[S any] struct {
	Name   string
	View   hidden[command.View[S]]
	Rule   hidden[func(S) ([]event.Event, error)]
	Detail string
}

func (c do[S]) CommandName() string               { return c.Name }
func (c do[S]) Context() command.View[S]          { return c.View.v }
func (c do[S]) Decide(s S) ([]event.Event, error) { return c.Rule.v(s) }

type hidden[T any] struct{ v T }

func (hidden[T]) MarshalText() ([]byte, error) { return []byte("hidden"), nil }

func rule[S any](name string, view command.View[S], decide func(S) ([]event.Event, error)) do[S] {
	return do[S]{Name: name, View: hidden[command.View[S]]{view}, Rule: hidden[func(S) ([]event.Event, error)]{decide}}
}

// hooked is a store whose calls a test can stand between.
type hooked struct {
	eventstore.Store
	anyID              bool // takes a second event with the same event_id, as some servers do
	mu                 sync.Mutex
	appends, snapshots int
	// onAppend and onSnapshot get the number of the call, from 1, and do it.
	onAppend   func(n int, do func() (eventstore.Receipt, error)) (eventstore.Receipt, error)
	onSnapshot func(n int, parts []eventstore.Part, do func() ([]eventstore.Result, error)) ([]eventstore.Result, error)
}

func (h *hooked) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	n := h.count(&h.appends)
	if h.anyID {
		records = slices.Clone(records)
		for i := range records {
			records[i].ID = uuid.New()
		}
	}
	do := func() (eventstore.Receipt, error) { return h.Store.Append(context.WithoutCancel(ctx), records, seen) }
	if h.onAppend == nil {
		return do()
	}
	return h.onAppend(n, do)
}

func (h *hooked) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	n := h.count(&h.snapshots)
	do := func() ([]eventstore.Result, error) { return h.Store.Snapshot(ctx, parts...) }
	if h.onSnapshot == nil {
		return do()
	}
	return h.onSnapshot(n, parts, do)
}

func (h *hooked) count(calls *int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	*calls++
	return *calls
}

func newStore(t *testing.T) *hooked {
	s := &hooked{Store: memstore.New()}
	t.Cleanup(func() { s.Close() })
	return s
}

var ctx = context.Background()

// must runs a command that has to be committed, with a runner of its own.
func must[C command.Command[S], S any](t *testing.T, s eventstore.Store, c C) command.Outcome[S] {
	t.Helper()
	out, err := command.Run(ctx, command.NewRunner(s, command.Config{}), command.NewID(), c)
	require.NoError(t, err)
	require.Equal(t, command.Committed, out.Status)
	return out
}

func stored(t *testing.T, s eventstore.Store) []event.Record {
	t.Helper()
	var all []event.Record
	for r, err := range eventstore.All(ctx, s, consistency.All(), consistency.Position{}) {
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func id(n int) uuid.UUID {
	id, err := command.KeyID("test", fmt.Sprint(n))
	if err != nil {
		panic(err)
	}
	return id
}

// endedAs states the whole answer: status and error.
func endedAs[S any](t *testing.T, status command.Status, sentinel error, out command.Outcome[S], err error) {
	t.Helper()
	require.Equal(t, status, out.Status, "error: %v", err)
	require.ErrorIs(t, err, sentinel)
	var e *command.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, status, e.Status)
}
