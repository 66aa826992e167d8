package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// status is how a line ended.
type status string

const (
	committed status = "committed"
	refused   status = "refused"
	reused    status = "reused"
	invalid   status = "invalid"
	contended status = "contended"
	unknown   status = "unknown"
)

// result is what is written of a line.
type result struct {
	Line     int64            `json:"line"`
	ID       string           `json:"id,omitempty"` // of all but invalid lines
	Status   status           `json:"status"`
	Code     Code             `json:"code,omitempty"`     // of refused ones
	Replayed *bool            `json:"replayed,omitempty"` // of committed and refused ones
	Balances map[string]int64 `json:"balances,omitempty"` // of committed ones
	Position string           `json:"position,omitempty"` // of committed ones

	at consistency.Position // what the read model has to be at to show it
}

// scope is what ids are unique in: they are the ledger's, whatever file or
// operation they stand in.
const scope = "ledger"

// runLine runs a line's command. An error is about more than this line: nothing is
// known to work any more.
func runLine(ctx context.Context, runner *command.Runner, l line) (result, error) {
	id, err := command.KeyID(scope, l.id)
	if err == nil {
		var r result
		switch c := l.command.(type) {
		case Open:
			r, err = ask(ctx, runner, id, c, one(c.Account))
		case Deposit:
			r, err = ask(ctx, runner, id, c, one(c.Account))
		case Withdraw:
			r, err = ask(ctx, runner, id, c, one(c.Account))
		case Close:
			r, err = ask(ctx, runner, id, c, one(c.Account))
		case Transfer:
			r, err = ask(ctx, runner, id, c, all)
		default:
			err = fmt.Errorf("no way to run a %T", c)
		}
		if err == nil {
			r.Line, r.ID = l.number, l.id
			return r, nil
		}
	}
	return result{}, fmt.Errorf("line %d: %w", l.number, err)
}

// ask maps an outcome to a result: one exhaustive switch.
func ask[C command.Command[S], S any](ctx context.Context, runner *command.Runner, id uuid.UUID, c C, balances func(S) map[string]int64) (result, error) {
	out, err := command.Run(ctx, runner, id, c)
	switch out.Status {
	case command.Committed:
		return result{
			Status: committed, Replayed: &out.Replayed, Balances: balances(out.State),
			Position: out.Position.String(), at: out.Position,
		}, nil
	case command.Refused:
		if why, ok := errors.AsType[Refused](err); ok {
			return result{Status: refused, Code: why.Code, Replayed: &out.Replayed, at: out.Position}, nil
		}
	case command.Reused:
		return result{Status: reused}, nil
	case command.Contended:
		return result{Status: contended}, nil
	case command.Unknown:
		return result{Status: unknown}, nil
	case command.Nothing, command.Unavailable, command.Failed:
	}
	if err == nil {
		err = fmt.Errorf("%s is no answer of this ledger", out.Status)
	}
	return result{}, err
}

func one(name string) func(Account) map[string]int64 {
	return func(a Account) map[string]int64 { return map[string]int64{name: a.Balance} }
}

func all(accounts Accounts) map[string]int64 {
	balances := make(map[string]int64, len(accounts))
	for name, a := range accounts {
		balances[name] = a.Balance
	}
	return balances
}
