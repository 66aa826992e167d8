// Quickstart moves money between accounts and keeps their balances in a SQLite
// file. Run it again: the transfer has its answer, and no money moves.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/sqlitestore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/sqlitetarget"
)

// Opened and Posted are the facts. What is posted below zero has left the account.
type Opened struct {
	Account string `json:"accountId"`
}
type Posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"` // some servers pass JSON numbers through float64
}

func (Opened) EventType() string { return "AccountOpened" }
func (Posted) EventType() string { return "MoneyPosted" }

// Account is what the facts about one account add up to.
type Account struct {
	Open  bool
	Cents int64
}

// Evolve gives the account after one more fact.
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
	errShort = errors.New("no such account, or not that much money")
)

func about(id string) command.View[Account] {
	return accounts.History(consistency.Where("accountId", id))
}

// Open is a command: its fields are the payload, its methods the rule.
type Open struct{ Account string }

func (Open) CommandName() string              { return "open" }
func (c Open) Context() command.View[Account] { return about(c.Account) }
func (c Open) Decide(a Account) ([]event.Event, error) {
	if a.Open {
		return nil, nil // nothing to do
	}
	return []event.Event{Opened{c.Account}, Posted{c.Account, 100}}, nil
}

// Transfer depends on two accounts, both as of one moment.
type Accounts = map[string]Account
type Transfer struct {
	From, To string
	Cents    int64
}

func (Transfer) CommandName() string               { return "transfer" }
func (c Transfer) Context() command.View[Accounts] { return command.Each(about, c.From, c.To) }
func (c Transfer) Decide(a Accounts) ([]event.Event, error) {
	if !a[c.To].Open || c.Cents < 1 || a[c.From].Cents < c.Cents {
		return nil, errShort
	}
	return []event.Event{Posted{c.From, -c.Cents}, Posted{c.To, c.Cents}}, nil
}

func projectBalance(_ context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
	if p, ok := d.Event.(Posted); ok {
		return tx.Exec(`INSERT INTO balance VALUES (?1, ?2) ON CONFLICT DO UPDATE SET cents = cents + ?2`, p.Account, p.Cents)
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err1 := sqlitestore.Open("bank.db")
	model, err2 := sqlitetarget.Open("balances.db", `CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER)`)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	balances := projector.New(store, model, projector.Config{Name: "balances", Events: events}, projectBalance)
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- balances.Run(ctx) }()
	defer func() { stop(); <-ended; model.Close(); store.Close() }()
	runner := command.NewRunner(store, command.Config{})
	id, err1 := command.KeyID("quickstart", "transfer 1") // the same each time
	_, err2 = command.Run(ctx, runner, command.NewID(), Open{"ada"})
	_, err3 := command.Run(ctx, runner, command.NewID(), Open{"bob"})
	out, err4 := command.Run(ctx, runner, id, Transfer{"ada", "bob", 30})
	err := errors.Join(err1, err2, err3, err4, balances.WaitFor(ctx, out.Position))
	if err == nil {
		fmt.Printf("ada has %d, bob has %d, done before: %t\n", out.State["ada"].Cents, out.State["bob"].Cents, out.Replayed)
	}
	return err
}
