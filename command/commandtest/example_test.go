package commandtest_test

import (
	"errors"
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/command/commandtest"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

type Opened struct {
	Account string `json:"accountId"`
}
type Posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"`
}

func (Opened) EventType() string { return "AccountOpened" }
func (Posted) EventType() string { return "MoneyPosted" }

type Account struct {
	Open  bool
	Cents int64
}

func (a Account) Evolve(e event.Event) Account {
	switch e := e.(type) {
	case Opened:
		a.Open = true
	case Posted:
		a.Cents += e.Cents
	}
	return a
}

var (
	events   = event.NewCodec(event.Of[Opened](), event.Of[Posted]())
	accounts = command.NewModel(events, Account.Evolve)
	ErrShort = errors.New("no such account, or not that much money")
)

type Transfer struct {
	From, To string
	Cents    int64
}

func (Transfer) CommandName() string { return "transfer" }
func (c Transfer) Context() command.View[map[string]Account] {
	about := func(id string) command.View[Account] { return accounts.History(consistency.Where("accountId", id)) }
	return command.Each(about, c.From, c.To)
}
func (c Transfer) Decide(a map[string]Account) ([]event.Event, error) {
	if !a[c.To].Open || c.Cents < 1 || a[c.From].Cents < c.Cents {
		return nil, ErrShort
	}
	return []event.Event{Posted{c.From, -c.Cents}, Posted{c.To, c.Cents}}, nil
}

// The test of a command; t is the *testing.T of the test function.
func Example() {
	t := &testing.T{}
	given := commandtest.Given(t, Opened{"ada"}, Opened{"bob"}, Posted{"ada", 50})
	commandtest.When(given, Transfer{"ada", "bob", 30}).Then(Posted{"ada", -30}, Posted{"bob", 30})
	commandtest.When(given, Transfer{"ada", "eve", 1}).ThenRefused(ErrShort)
	// Output:
}
