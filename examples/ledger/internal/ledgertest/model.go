package ledgertest

import (
	"maps"
	"math/big"
)

// Command is a line of the input that is a command.
type Command struct {
	ID, Op         string
	Account, Owner string // of open, deposit, withdraw, close; Owner of open alone
	From, To       string // of transfer
	Amount         int64  // of deposit, withdraw, transfer
}

// Answer is what the ledger has to say to a line. Fields that do not belong to
// the status are zero.
type Answer struct {
	Line     int64
	ID       string
	Status   string
	Code     string
	Replayed bool
	Balances map[string]int64
}

// Model is a ledger that runs one command after the other and forgets nothing.
// The zero Model is empty.
type Model struct {
	accounts map[string]*account
	answers  map[string]answered
}

type account struct {
	balance int64
	closed  bool
}

type answered struct {
	command Command
	answer  Answer
}

// Do answers one command.
func (m *Model) Do(c Command) Answer {
	if m.accounts == nil {
		m.accounts, m.answers = map[string]*account{}, map[string]answered{}
	}
	before, repeated := m.answers[c.ID]
	if repeated {
		if before.command != c {
			return Answer{ID: c.ID, Status: "reused"}
		}
		before.answer.Replayed = true
		return before.answer
	}
	a := Answer{ID: c.ID, Status: "refused"}
	a.Code = m.refuse(c)
	if a.Code == "" {
		a.Status = "committed"
		a.Balances = m.apply(c)
	}
	m.answers[c.ID] = answered{c, a}
	return a
}

func (m *Model) refuse(c Command) string {
	if c.Op == "deposit" || c.Op == "withdraw" || c.Op == "transfer" {
		if c.Amount <= 0 {
			return "amount_not_positive"
		}
	}
	if c.Op == "transfer" && c.From == c.To {
		return "same_account"
	}
	var needed []string
	switch c.Op {
	case "deposit", "withdraw", "close":
		needed = []string{c.Account}
	case "transfer":
		needed = []string{c.From, c.To}
	}
	for _, name := range needed {
		if m.accounts[name] == nil {
			return "account_not_found"
		}
		if m.accounts[name].closed {
			return "account_closed"
		}
	}
	if c.Op == "withdraw" && m.accounts[c.Account].balance < c.Amount {
		return "insufficient_funds"
	}
	if c.Op == "transfer" && m.accounts[c.From].balance < c.Amount {
		return "insufficient_funds"
	}
	if c.Op == "deposit" && !fits(m.accounts[c.Account].balance, c.Amount) {
		return "overflow"
	}
	if c.Op == "transfer" && !fits(m.accounts[c.To].balance, c.Amount) {
		return "overflow"
	}
	if c.Op == "open" && m.accounts[c.Account] != nil {
		return "account_exists"
	}
	if c.Op == "close" && m.accounts[c.Account].balance != 0 {
		return "not_empty"
	}
	return ""
}

func fits(a, b int64) bool {
	return new(big.Int).Add(big.NewInt(a), big.NewInt(b)).IsInt64()
}

func (m *Model) apply(c Command) map[string]int64 {
	switch c.Op {
	case "open":
		m.accounts[c.Account] = &account{}
	case "deposit":
		m.accounts[c.Account].balance += c.Amount
	case "withdraw":
		m.accounts[c.Account].balance -= c.Amount
	case "close":
		m.accounts[c.Account].closed = true
	case "transfer":
		m.accounts[c.From].balance -= c.Amount
		m.accounts[c.To].balance += c.Amount
		return map[string]int64{c.From: m.accounts[c.From].balance, c.To: m.accounts[c.To].balance}
	}
	return map[string]int64{c.Account: m.accounts[c.Account].balance}
}

// Balances are those of the open accounts.
func (m *Model) Balances() map[string]int64 {
	balances := map[string]int64{}
	for name, a := range maps.All(m.accounts) {
		if !a.closed {
			balances[name] = a.balance
		}
	}
	return balances
}

// Run answers the lines of an input.
func (m *Model) Run(lines []Line) []Answer {
	var answers []Answer
	for _, l := range lines {
		if l.Blank {
			continue
		}
		a := Answer{Status: "invalid"}
		if l.Command != nil {
			a = m.Do(*l.Command)
		}
		a.Line = int64(len(answers) + 1)
		answers = append(answers, a)
	}
	return answers
}
