package main

import (
	"cmp"
	"math"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// The facts. Each carries the balance that it leads to, so the latest fact of an
// account is all that a decision needs, however long the account's history is.
// What nobody asks the log for is nested: only top-level strings are indexed.
type (
	Opened struct {
		Account string `json:"account"`
		Details struct {
			Owner string `json:"owner,omitempty"`
		} `json:"details"`
	}
	Deposited struct {
		Account string  `json:"account"`
		Posting Posting `json:"posting"`
	}
	Withdrawn struct {
		Account string  `json:"account"`
		Posting Posting `json:"posting"`
	}
	Sent struct {
		Account string  `json:"account"`
		Posting Posting `json:"posting"`
	}
	Received struct {
		Account string  `json:"account"`
		Posting Posting `json:"posting"`
	}
	Closed struct {
		Account string `json:"account"`
	}

	// Posting is how money came or went. Numbers are stored as texts: some
	// servers pass JSON numbers through a float64.
	Posting struct {
		Amount  int64  `json:"amount,string"`
		Balance int64  `json:"balance,string"` // after it
		Partner string `json:"partner,omitempty"`
	}

	// Refused is a refusal that is recorded: it is an error and an event too.
	Refused struct {
		Code Code `json:"code"`
	}
)

func (Opened) EventType() string    { return "AccountOpened" }
func (Deposited) EventType() string { return "MoneyDeposited" }
func (Withdrawn) EventType() string { return "MoneyWithdrawn" }
func (Sent) EventType() string      { return "TransferSent" }
func (Received) EventType() string  { return "TransferReceived" }
func (Closed) EventType() string    { return "AccountClosed" }
func (Refused) EventType() string   { return "CommandRefused" }
func (r Refused) Error() string     { return string(r.Code) }

// Code says why a command is refused. Codes are a storage format.
type Code string

const (
	AmountNotPositive Code = "amount_not_positive"
	SameAccount       Code = "same_account"
	AccountNotFound   Code = "account_not_found"
	AccountClosed     Code = "account_closed"
	InsufficientFunds Code = "insufficient_funds"
	Overflow          Code = "overflow"
	AccountExists     Code = "account_exists"
	NotEmpty          Code = "not_empty"
)

// Account is what its latest fact says.
type Account struct {
	Opened, Closed bool
	Balance        int64
}

// Evolve gives the account after one more fact.
func (a Account) Evolve(e event.Event) Account {
	switch e := e.(type) {
	case Opened:
		return Account{Opened: true}
	case Deposited:
		a.Balance = e.Posting.Balance
	case Withdrawn:
		a.Balance = e.Posting.Balance
	case Sent:
		a.Balance = e.Posting.Balance
	case Received:
		a.Balance = e.Posting.Balance
	case Closed:
		return Account{Opened: true, Closed: true}
	}
	a.Opened = true
	return a
}

// about names the account that a fact is about.
func about(e event.Event) string {
	switch e := e.(type) {
	case Opened:
		return e.Account
	case Deposited:
		return e.Account
	case Withdrawn:
		return e.Account
	case Sent:
		return e.Account
	case Received:
		return e.Account
	case Closed:
		return e.Account
	}
	return ""
}

var (
	events = event.NewCodec(event.Of[Opened](), event.Of[Deposited](), event.Of[Withdrawn](),
		event.Of[Sent](), event.Of[Received](), event.Of[Closed](), event.Of[Refused]())
	accounts = command.NewModel(events, Account.Evolve)
)

func account(name string) command.View[Account] {
	return accounts.Latest(consistency.Where("account", name))
}

// The commands. A Decide lists the rules in the order in which they refuse.
type (
	Open struct {
		Account string
		Owner   string
	}
	Deposit struct {
		Account string
		Amount  int64
	}
	Withdraw struct {
		Account string
		Amount  int64
	}
	Transfer struct {
		From, To string
		Amount   int64
	}
	Close struct {
		Account string
	}
)

// Accounts is the state of a transfer.
type Accounts = map[string]Account

func (Open) CommandName() string     { return "open" }
func (Deposit) CommandName() string  { return "deposit" }
func (Withdraw) CommandName() string { return "withdraw" }
func (Transfer) CommandName() string { return "transfer" }
func (Close) CommandName() string    { return "close" }

func (c Open) Context() command.View[Account]      { return account(c.Account) }
func (c Deposit) Context() command.View[Account]   { return account(c.Account) }
func (c Withdraw) Context() command.View[Account]  { return account(c.Account) }
func (c Transfer) Context() command.View[Accounts] { return command.Each(account, c.From, c.To) }
func (c Close) Context() command.View[Account]     { return account(c.Account) }

func (c Open) Decide(a Account) ([]event.Event, error) {
	opened := Opened{Account: c.Account}
	opened.Details.Owner = c.Owner
	return unless(when(a.Opened, AccountExists), opened)
}

func (c Deposit) Decide(a Account) ([]event.Event, error) {
	return unless(
		cmp.Or(positive(c.Amount), a.usable(), a.holds(c.Amount)),
		Deposited{c.Account, Posting{Amount: c.Amount, Balance: a.Balance + c.Amount}})
}

func (c Withdraw) Decide(a Account) ([]event.Event, error) {
	return unless(
		cmp.Or(positive(c.Amount), a.usable(), a.covers(c.Amount)),
		Withdrawn{c.Account, Posting{Amount: c.Amount, Balance: a.Balance - c.Amount}})
}

func (c Transfer) Decide(a Accounts) ([]event.Event, error) {
	from, to := a[c.From], a[c.To]
	return unless(
		cmp.Or(positive(c.Amount), when(c.From == c.To, SameAccount),
			from.usable(), to.usable(), from.covers(c.Amount), to.holds(c.Amount)),
		Sent{c.From, Posting{c.Amount, from.Balance - c.Amount, c.To}},
		Received{c.To, Posting{c.Amount, to.Balance + c.Amount, c.From}})
}

func (c Close) Decide(a Account) ([]event.Event, error) {
	return unless(
		cmp.Or(a.usable(), when(a.Balance != 0, NotEmpty)),
		Closed{c.Account})
}

// unless is a decision: these facts, or the refusal if there is one.
func unless(refusal Code, facts ...event.Event) ([]event.Event, error) {
	if refusal != "" {
		return nil, Refused{refusal}
	}
	return facts, nil
}

func when(condition bool, refusal Code) Code {
	if condition {
		return refusal
	}
	return ""
}

func positive(amount int64) Code { return when(amount <= 0, AmountNotPositive) }

func (a Account) usable() Code {
	return cmp.Or(when(!a.Opened, AccountNotFound), when(a.Closed, AccountClosed))
}

func (a Account) covers(amount int64) Code { return when(a.Balance < amount, InsufficientFunds) }

func (a Account) holds(amount int64) Code {
	return when(a.Balance > math.MaxInt64-amount, Overflow) // no balance is below zero
}
