package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The model is what the ledger is held to, so it is held to the rules by hand.
func TestModel(t *testing.T) {
	const most = 9223372036854775807
	var m Model
	for i, step := range []struct {
		c        Command
		status   string
		code     string
		replayed bool
		balances map[string]int64
	}{
		{Command{ID: "1", Op: "deposit", Account: "A", Amount: 0}, "refused", "amount_not_positive", false, nil},
		{Command{ID: "2", Op: "transfer", From: "A", To: "A", Amount: -1}, "refused", "amount_not_positive", false, nil},
		{Command{ID: "3", Op: "transfer", From: "A", To: "A", Amount: 1}, "refused", "same_account", false, nil},
		{Command{ID: "4", Op: "withdraw", Account: "A", Amount: 1}, "refused", "account_not_found", false, nil},
		{Command{ID: "5", Op: "open", Account: "A", Owner: "Ada"}, "committed", "", false, map[string]int64{"A": 0}},
		{Command{ID: "6", Op: "open", Account: "A"}, "refused", "account_exists", false, nil},
		{Command{ID: "5", Op: "open", Account: "A"}, "reused", "", false, nil},
		{Command{ID: "7", Op: "deposit", Account: "A", Amount: most}, "committed", "", false, map[string]int64{"A": most}},
		{Command{ID: "8", Op: "deposit", Account: "A", Amount: 1}, "refused", "overflow", false, nil},
		{Command{ID: "9", Op: "transfer", From: "A", To: "B", Amount: 1}, "refused", "account_not_found", false, nil},
		{Command{ID: "10", Op: "open", Account: "B"}, "committed", "", false, map[string]int64{"B": 0}},
		{Command{ID: "11", Op: "transfer", From: "A", To: "B", Amount: most}, "committed", "", false, map[string]int64{"A": 0, "B": most}},
		{Command{ID: "12", Op: "transfer", From: "A", To: "B", Amount: 1}, "refused", "insufficient_funds", false, nil},
		{Command{ID: "13", Op: "deposit", Account: "A", Amount: 1}, "committed", "", false, map[string]int64{"A": 1}},
		{Command{ID: "14", Op: "transfer", From: "A", To: "B", Amount: 1}, "refused", "overflow", false, nil},
		{Command{ID: "15", Op: "close", Account: "A"}, "refused", "not_empty", false, nil},
		{Command{ID: "16", Op: "withdraw", Account: "A", Amount: 2}, "refused", "insufficient_funds", false, nil},
		{Command{ID: "17", Op: "withdraw", Account: "A", Amount: 1}, "committed", "", false, map[string]int64{"A": 0}},
		{Command{ID: "18", Op: "close", Account: "A"}, "committed", "", false, map[string]int64{"A": 0}},
		{Command{ID: "19", Op: "close", Account: "A"}, "refused", "account_closed", false, nil},
		{Command{ID: "20", Op: "open", Account: "A"}, "refused", "account_exists", false, nil},
		{Command{ID: "21", Op: "transfer", From: "C", To: "A", Amount: 1}, "refused", "account_not_found", false, nil},
		{Command{ID: "22", Op: "transfer", From: "A", To: "C", Amount: 1}, "refused", "account_closed", false, nil},
		{Command{ID: "7", Op: "deposit", Account: "A", Amount: most}, "committed", "", true, map[string]int64{"A": most}},
		{Command{ID: "16", Op: "withdraw", Account: "A", Amount: 2}, "refused", "insufficient_funds", true, nil},
		{Command{ID: "16", Op: "deposit", Account: "A", Amount: 2}, "reused", "", false, nil},
	} {
		want := Answer{0, step.c.ID, step.status, step.code, step.replayed, step.balances}
		require.Equal(t, want, m.Do(step.c), "step %d: %+v", i, step.c)
	}
	require.Equal(t, map[string]int64{"B": most}, m.Balances())
}

// A file that does not hold everything would prove less than it says.
func TestGenerateHoldsEverything(t *testing.T) {
	const seed, count = 1, 20000
	lines := Generate(seed, count)
	require.Equal(t, lines, Generate(seed, count), "the same seed gives the same lines")
	require.Equal(t, Bytes(seed, lines), Bytes(seed, lines))

	classes := map[string]int{}
	for _, l := range lines {
		classes[l.Class]++
	}
	for _, name := range Classes() {
		require.Positive(t, classes[name], "no line is broken by: %s", name)
	}
	var m Model
	answers := m.Run(lines)
	require.Len(t, answers, count)
	seen := map[string]int{}
	for _, a := range answers {
		what := a.Status + " " + a.Code
		if a.Replayed {
			what += " replayed"
		}
		seen[what]++
	}
	t.Log(seen)
	for _, what := range []string{"committed ", "invalid ", "reused ", "committed  replayed"} {
		require.Greater(t, seen[what], 100, what)
	}
	for _, code := range []string{
		"amount_not_positive", "same_account", "account_not_found", "account_closed",
		"insufficient_funds", "overflow", "account_exists", "not_empty",
	} {
		require.Positive(t, seen["refused "+code], code)
		require.Positive(t, seen["refused "+code+" replayed"], code)
	}
}
