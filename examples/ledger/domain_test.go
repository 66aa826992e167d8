package main

import (
	"math"
	"testing"

	"github.com/cccgo/ccc/command/commandtest"
	"github.com/cccgo/ccc/event"
)

func opened(account, owner string) Opened {
	e := Opened{Account: account}
	e.Details.Owner = owner
	return e
}

// has are the facts of an open account with a balance.
func has(account string, balance int64) []event.Event {
	facts := []event.Event{opened(account, "Ada")}
	if balance > 0 {
		facts = append(facts, Deposited{account, Posting{Amount: balance, Balance: balance}})
	}
	return facts
}

func given(t *testing.T, facts ...[]event.Event) commandtest.Facts {
	var all []event.Event
	for _, f := range facts {
		all = append(all, f...)
	}
	return commandtest.Given(t, all...)
}

var gone = []event.Event{opened("gone", ""), Closed{"gone"}}

func TestOpen(t *testing.T) {
	commandtest.When(given(t, has("b", 1)), Open{"a", "Ada"}).Then(opened("a", "Ada")).ThenState(Account{Opened: true})
	commandtest.When(given(t), Open{"a", ""}).Then(opened("a", ""))
	commandtest.When(given(t, has("a", 0)), Open{"a", ""}).ThenRefused(Refused{AccountExists})
	commandtest.When(given(t, gone), Open{"gone", ""}).ThenRefused(Refused{AccountExists})
}

func TestDeposit(t *testing.T) {
	facts := given(t, has("a", 5), has("full", math.MaxInt64), gone)
	commandtest.When(facts, Deposit{"a", 7}).Then(Deposited{"a", Posting{Amount: 7, Balance: 12}}).ThenState(Account{Opened: true, Balance: 12})
	commandtest.When(facts, Deposit{"a", math.MaxInt64 - 5}).Then(Deposited{"a", Posting{Amount: math.MaxInt64 - 5, Balance: math.MaxInt64}})
	commandtest.When(facts, Deposit{"a", math.MaxInt64 - 4}).ThenRefused(Refused{Overflow})
	commandtest.When(facts, Deposit{"full", 1}).ThenRefused(Refused{Overflow})
	commandtest.When(facts, Deposit{"a", 0}).ThenRefused(Refused{AmountNotPositive})
	commandtest.When(facts, Deposit{"nobody", math.MinInt64}).ThenRefused(Refused{AmountNotPositive})
	commandtest.When(facts, Deposit{"nobody", 1}).ThenRefused(Refused{AccountNotFound})
	commandtest.When(facts, Deposit{"A", 1}).ThenRefused(Refused{AccountNotFound}) // another name
	commandtest.When(facts, Deposit{"gone", 1}).ThenRefused(Refused{AccountClosed})
}

func TestWithdraw(t *testing.T) {
	facts := given(t, has("a", 5), gone)
	commandtest.When(facts, Withdraw{"a", 5}).Then(Withdrawn{"a", Posting{Amount: 5}}).ThenState(Account{Opened: true})
	commandtest.When(facts, Withdraw{"a", 6}).ThenRefused(Refused{InsufficientFunds})
	commandtest.When(facts, Withdraw{"a", math.MaxInt64}).ThenRefused(Refused{InsufficientFunds})
	commandtest.When(facts, Withdraw{"a", -1}).ThenRefused(Refused{AmountNotPositive})
	commandtest.When(facts, Withdraw{"nobody", 1}).ThenRefused(Refused{AccountNotFound})
	commandtest.When(facts, Withdraw{"gone", 1}).ThenRefused(Refused{AccountClosed})
}

func TestTransfer(t *testing.T) {
	facts := given(t, has("a", 5), has("b", 1), has("full", math.MaxInt64), gone)
	commandtest.When(facts, Transfer{"a", "b", 5}).
		Then(Sent{"a", Posting{5, 0, "b"}}, Received{"b", Posting{5, 6, "a"}}).
		ThenState(Accounts{"a": {Opened: true}, "b": {Opened: true, Balance: 6}})
	commandtest.When(facts, Transfer{"full", "a", math.MaxInt64 - 5}).
		Then(Sent{"full", Posting{math.MaxInt64 - 5, 5, "a"}}, Received{"a", Posting{math.MaxInt64 - 5, math.MaxInt64, "full"}})
	// Each rule refuses before those below it.
	for _, c := range []struct {
		transfer Transfer
		code     Code
	}{
		{Transfer{"nobody", "nobody", 0}, AmountNotPositive},
		{Transfer{"nobody", "nobody", 1}, SameAccount},
		{Transfer{"a", "a", 1}, SameAccount},
		{Transfer{"nobody", "gone", 1}, AccountNotFound},
		{Transfer{"gone", "nobody", 1}, AccountClosed}, // all of from before all of to
		{Transfer{"a", "nobody", 9}, AccountNotFound},
		{Transfer{"a", "gone", 9}, AccountClosed},
		{Transfer{"a", "full", 9}, InsufficientFunds},
		{Transfer{"a", "full", 1}, Overflow},
		{Transfer{"full", "a", math.MaxInt64 - 4}, Overflow},
	} {
		commandtest.When(facts, c.transfer).ThenRefused(Refused{c.code})
	}
}

func TestClose(t *testing.T) {
	facts := given(t, has("a", 5), has("empty", 0), gone)
	commandtest.When(facts, Close{"empty"}).Then(Closed{"empty"}).ThenState(Account{Opened: true, Closed: true})
	commandtest.When(facts, Close{"a"}).ThenRefused(Refused{NotEmpty})
	commandtest.When(facts, Close{"gone"}).ThenRefused(Refused{AccountClosed})
	commandtest.When(facts, Close{"nobody"}).ThenRefused(Refused{AccountNotFound})
}
