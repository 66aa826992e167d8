package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cccgo/ccc/examples/ledger/internal/ledgertest"
	"github.com/stretchr/testify/require"
)

// answers are what a run of the program has written.
type answers struct {
	code           int
	results        []ledgertest.Answer
	positions      []string
	balances       map[string]int64
	stdout, stderr string
}

// raced says that the race detector is on, which makes a commit of this process
// ten times slower.
var raced = false

// full is how much is tried: all of it, or a part with -short.
func full(t testing.TB, long, short int) int {
	if testing.Short() {
		return short
	}
	t.Logf("with -short: %d instead of %d", short, long)
	return long
}

// fullHere is full for what runs in this process.
func fullHere(t testing.TB, long, short int) int {
	if raced && !testing.Short() {
		t.Logf("without -race: %d instead of %d", long, long/5)
		return long / 5
	}
	return full(t, long, short)
}

// runHere runs the program in this process.
func runHere(t testing.TB, input []byte, args ...string) answers {
	t.Helper()
	dir := t.TempDir()
	results, balances := filepath.Join(dir, "results"), filepath.Join(dir, "balances")
	var stdout, stderr bytes.Buffer
	args = append([]string{"-results", results, "-balances", balances}, append(args, "-")...)
	a := answers{code: run(t.Context(), args, bytes.NewReader(input), &stdout, &stderr)}
	a.stdout, a.stderr = stdout.String(), stderr.String()
	if a.code == 1 {
		require.NoFileExists(t, results)
		require.NoFileExists(t, balances)
	} else {
		a.read(t, results, balances)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left, "nothing is left beside the files")
	return a
}

// members are the fields of a result, by its status, in their order.
var members = map[string]string{
	"committed": "line id status replayed balances position",
	"refused":   "line id status code replayed",
	"reused":    "line id status",
	"contended": "line id status",
	"unknown":   "line id status",
	"invalid":   "line status",
}

func (a *answers) read(t testing.TB, results, balances string) {
	t.Helper()
	text, err := os.ReadFile(results)
	require.NoError(t, err)
	for row := range strings.Lines(string(text)) {
		require.Equal(t, byte('\n'), row[len(row)-1], "the last line is whole")
		var of struct {
			ledgertest.Answer
			Position *string
		}
		require.NoError(t, json.Unmarshal([]byte(row), &of), row)
		require.Equal(t, members[of.Status], names(t, row), row)
		position := ""
		if of.Position != nil {
			require.NotEmpty(t, *of.Position, row)
			position = *of.Position
		}
		a.results = append(a.results, of.Answer)
		a.positions = append(a.positions, position)
	}
	text, err = os.ReadFile(balances)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &a.balances), string(text))
}

// names of an object's members, in their order.
func names(t testing.TB, object string) string {
	d := json.NewDecoder(strings.NewReader(object))
	_, err := d.Token()
	require.NoError(t, err)
	var all []string
	for d.More() {
		name, err := d.Token()
		require.NoError(t, err)
		all = append(all, name.(string))
		var value json.RawMessage
		require.NoError(t, d.Decode(&value))
	}
	return strings.Join(all, " ")
}

// exam is a file of commands, and what has to come of it.
type exam struct {
	input    []byte
	lines    []ledgertest.Line
	answers  []ledgertest.Answer
	balances map[string]int64
}

func examOf(t testing.TB, seed uint64, n int) exam {
	t.Logf("seed %d, %d lines", seed, n)
	e := exam{lines: ledgertest.Generate(seed, n)}
	e.input = ledgertest.Bytes(seed, e.lines)
	var m ledgertest.Model
	e.answers, e.balances = m.Run(e.lines), m.Balances()
	return e
}

// expect is what a run finds.
type expect int

const (
	first     expect = iota // nothing
	again                   // everything answered
	undecided               // some of it answered, perhaps
)

// passed compares a run with the model.
func (e exam) passed(t testing.TB, a answers, when expect) {
	t.Helper()
	require.Equal(t, 2, a.code, "some lines are invalid: %s", a.stderr)
	require.Empty(t, a.stderr)
	require.Len(t, a.results, len(e.answers))
	positions := map[string]string{}
	for i, want := range e.answers {
		got := a.results[i]
		decided := want.Status == "committed" || want.Status == "refused"
		switch {
		case when == again && decided:
			want.Replayed = true
		case when == undecided:
			want.Replayed = got.Replayed
		}
		if fmt.Sprint(got) != fmt.Sprint(want) { // require.Equal is slow
			require.Equal(t, want, got)
		}
		if want.Status == "committed" {
			if at, repeated := positions[want.ID]; repeated && at != a.positions[i] {
				require.Equal(t, at, a.positions[i], "the position of a repeat: %+v", got)
			}
			positions[want.ID] = a.positions[i]
		}
	}
	require.Equal(t, e.balances, a.balances)
}
