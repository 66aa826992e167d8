package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The answers are those of the model, whatever the store and the number of
// workers; a second run gives them all again.
func TestLedgerIsTheModel(t *testing.T) {
	for i, workers := range []int{1, 16} {
		e := examOf(t, uint64(100+i), fullHere(t, 20000, 1000))
		t.Run(fmt.Sprint("memory, workers ", workers), func(t *testing.T) {
			e.passed(t, runHere(t, e.input, "-store", "memory:", "-workers", fmt.Sprint(workers)), first)
		})
		t.Run(fmt.Sprint("sqlite, workers ", workers), func(t *testing.T) {
			store := newStore(t)
			a := runHere(t, e.input, "-store", store, "-workers", fmt.Sprint(workers))
			e.passed(t, a, first)
			b := runHere(t, e.input, "-store", store, "-workers", fmt.Sprint(17-workers))
			e.passed(t, b, again)
			require.Equal(t, a.positions, b.positions)
		})
	}
}

// The same over a server, of both generations; and over a real one, whose DSN
// CCC_ORISUN holds.
func TestLedgerIsTheModelOnOrisun(t *testing.T) {
	for _, v := range []orisuntest.Version{orisuntest.V010, orisuntest.V014} {
		t.Run(string(v), func(t *testing.T) {
			server, err := orisuntest.Start(orisuntest.Config{Version: v, User: "ledger", Password: "s3cret"})
			require.NoError(t, err)
			t.Cleanup(server.Close)
			onServer(t, server.DSN("bank"), fullHere(t, 20000, 1000))
		})
	}
	if dsn := os.Getenv("CCC_ORISUN"); dsn != "" {
		t.Run("CCC_ORISUN", func(t *testing.T) { onServer(t, freshBoundary(dsn), fullHere(t, 20000, 1000)) })
	}
}

// Every fault that a server may have, under 5,000 commands: the answers and the
// money are exact nevertheless.
func TestLedgerOnAFaultyOrisun(t *testing.T) {
	for _, v := range []orisuntest.Version{orisuntest.V010, orisuntest.V014} {
		t.Run(string(v), func(t *testing.T) {
			const seed = 6
			server, err := orisuntest.Start(orisuntest.Config{Version: v, Faults: storefault.Rough(seed, 0.04), Boundaries: []string{"bank"}})
			require.NoError(t, err)
			t.Cleanup(server.Close)
			t.Chdir(t.TempDir())
			e := examOf(t, seed, 5000)
			for _, when := range []expect{undecided, again} {
				a := runHere(t, e.input, "-store", server.DSN("bank"), "-workers", "16")
				require.Equal(t, 2, a.code, a.stderr)
				a.stderr = "" // the projector tells of reads that failed
				e.passed(t, a, when)
			}
			counts := server.Boundary("bank").Counts()
			t.Logf("faults of seed %d: %+v", seed, counts)
			for _, f := range []storefault.Fault{storefault.LoseAnswer, storefault.LoseRequest, storefault.LandLate, storefault.Double, storefault.Echo} {
				require.NotZero(t, counts.Faults[f.String()], "%s", f)
			}
		})
	}
}

// A real server is killed and started again by the command CCC_ORISUN_RESTART
// when half of the input is read: a second run has every answer.
func TestLedgerOverAKilledOrisun(t *testing.T) {
	dsn, restart := os.Getenv("CCC_ORISUN"), os.Getenv("CCC_ORISUN_RESTART")
	if dsn == "" || restart == "" {
		t.Skip("CCC_ORISUN and CCC_ORISUN_RESTART are not set")
	}
	t.Chdir(t.TempDir())
	store, e := freshBoundary(dsn), examOf(t, 103, fullHere(t, 20000, 2000))
	killed := make(chan error, 1)
	input := &midway{Reader: bytes.NewReader(e.input), left: len(e.input) / 2, do: func() {
		go func() {
			out, err := exec.Command("sh", "-c", restart).CombinedOutput()
			t.Logf("restarted: %s", out)
			killed <- err
		}()
	}}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"-store", store, "-workers", "16", "-"}, input, &stdout, &stderr)
	require.NoError(t, <-killed)
	t.Logf("first run: %d\n%s%.2000s", code, stdout.String(), stderr.String())
	e.passed(t, runHere(t, e.input, "-store", store, "-workers", "16"), undecided)
	e.passed(t, runHere(t, e.input, "-store", store, "-workers", "16"), again)
}

// midway does something when much is read.
type midway struct {
	io.Reader
	left int
	do   func()
}

func (m *midway) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p[:min(len(p), 4096)])
	if m.left -= n; m.left <= 0 && m.do != nil {
		m.do()
		m.do = nil
	}
	return n, err
}

func onServer(t *testing.T, store string, lines int) {
	t.Chdir(t.TempDir())
	e := examOf(t, 102, lines)
	a := runHere(t, e.input, "-store", store, "-workers", "16")
	e.passed(t, a, first)
	require.NotContains(t, a.stdout, "s3cret")
	b := runHere(t, e.input, "-store", store, "-workers", "1")
	e.passed(t, b, again)
	require.Equal(t, a.positions, b.positions)
	require.FileExists(t, placed(t, store).model)
}

func placed(t testing.TB, store string) place {
	p, err := placeOf(store)
	require.NoError(t, err)
	return p
}

// freshBoundary puts a new boundary into a DSN.
func freshBoundary(dsn string) string {
	server, _, _ := strings.Cut(dsn[len("orisun://"):], "/")
	return "orisun://" + server + "/ledger_" + strings.ReplaceAll(uuid.NewString(), "-", "")
}

func newStore(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "ledger.db") }

func TestSample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run(t.Context(), []string{"-store", "memory:"}, nil, &stdout, &stderr))
	require.Empty(t, stderr.String())
	for _, row := range []string{
		`committed +11`, `refused +9`, `reused +1`, `invalid +3`, `lines +24`,
		`line 21: amount is not an integer literal`, `bob +500`, `café ☕ +9223372036854775807`, `in memory`,
	} {
		require.Regexp(t, row, stdout.String())
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.jsonl")
	require.NoError(t, os.WriteFile(good, []byte(`{"id":"k","op":"open","account":"A"}`), 0o600))
	bad := filepath.Join(dir, "bad.jsonl")
	require.NoError(t, os.WriteFile(bad, []byte("x"), 0o600))
	for name, c := range map[string]struct {
		args []string
		code int
		says string // on standard error; on standard output for the others
	}{
		"all answered":           {[]string{"-store", "memory:", good}, 0, "committed"},
		"nothing to answer":      {[]string{"-store", "memory:", os.DevNull}, 0, "committed"},
		"invalid":                {[]string{"-store", "memory:", good, bad}, 2, "invalid"},
		"help":                   {[]string{"-h"}, 0, "usage: ledger"},
		"an unknown flag":        {[]string{"-wokers", "3"}, 1, "-h shows the flags"},
		"no workers":             {[]string{"-workers", "0", good}, 1, "at least one"},
		"a bad server":           {[]string{"-store", "orisun://u:s3cret@h/1", good}, 1, "-store: orisun: DSN"},
		"an unknown store":       {[]string{"-store", "postgres://x", good}, 1, "give sqlite:FILE"},
		"a store without a file": {[]string{"-store", "sqlite:", good}, 1, "give sqlite:FILE"},
		"memory with a name":     {[]string{"-store", "memory:x", good}, 1, "give sqlite:FILE"},
		"no directory":           {[]string{"-store", "sqlite:" + filepath.Join(dir, "no", "ledger.db"), good}, 1, "does not exist"},
		"a store that is none":   {[]string{"-store", "sqlite:" + good, good}, 1, good},
		"a missing input":        {[]string{"-store", "memory:", good, filepath.Join(dir, "missing")}, 1, "missing"},
		"a directory as input":   {[]string{"-store", "memory:", dir}, 1, "is a directory"},
		"a directory as results": {[]string{"-store", "memory:", "-results", dir, good}, 1, "-results"},
		"no place for balances":  {[]string{"-store", "memory:", "-balances", filepath.Join(dir, "no", "b"), good}, 1, "-balances"},
		"one file for both":      {[]string{"-store", "memory:", "-balances", filepath.Join(dir, "b"), "-results", dir + "/./b", good}, 1, "the same file"},
		"an input as output":     {[]string{"-store", "memory:", "-balances", good, bad, good}, 1, "is read and would be written"},
		"the store as output":    {[]string{"-store", "sqlite:" + filepath.Join(dir, "s"), "-balances", filepath.Join(dir, "s"), good}, 1, "belongs to the store"},
		"the model as output":    {[]string{"-store", "sqlite:" + filepath.Join(dir, "s"), "-results", filepath.Join(dir, "s.balances"), good}, 1, "belongs to the store"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, c.code, run(t.Context(), c.args, strings.NewReader(""), &stdout, &stderr), stderr.String())
			if c.code == 1 {
				require.Empty(t, stdout.String())
				require.Contains(t, stderr.String(), c.says)
			} else {
				require.Contains(t, stdout.String(), c.says)
				require.Empty(t, stderr.String())
			}
			only(t, dir, "good.jsonl", "bad.jsonl")
		})
	}
}

// Whoever cannot be told the summary gets no files either.
func TestNobodyListens(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-store", "memory:", "-results", filepath.Join(dir, "r"), "-balances", filepath.Join(dir, "b")}, nil, deaf{}, &stderr))
	require.Contains(t, stderr.String(), errDeaf.Error())
	only(t, dir)
}

type deaf struct{}

var errDeaf = errors.New("nobody listens")

func (deaf) Write([]byte) (int, error) { return 0, errDeaf }

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	results := filepath.Join(dir, "r")
	require.NoError(t, os.WriteFile(results, []byte("before"), 0o600))
	e := examOf(t, 5, fullHere(t, 5000, 1000))
	store := newStore(t)
	var stdout, stderr bytes.Buffer
	input := &cutReader{text: e.input, at: len(e.input) / 2, do: cancel}
	require.Equal(t, 1, run(ctx, []string{"-store", store, "-results", results, "-"}, input, &stdout, &stderr))
	require.Contains(t, stderr.String(), "Run it again")
	require.Empty(t, stdout.String())
	require.Equal(t, "before", textOf(t, results))
	only(t, dir, "r")
	e.passed(t, runHere(t, e.input, "-store", store), undecided)
}

// cutReader does something in the middle.
type cutReader struct {
	text []byte
	at   int
	do   func()
}

func (r *cutReader) Read(p []byte) (int, error) {
	if len(r.text) <= r.at {
		r.do()
	}
	n := min(len(p), len(r.text), 1000)
	copy(p, r.text[:n])
	r.text = r.text[n:]
	if n == 0 {
		return 0, fmt.Errorf("it should have been interrupted")
	}
	return n, nil
}

// wrapped is a store some of whose appends fail.
type wrapped struct {
	eventstore.Store
	before func(records []event.Record) error
}

func (w *wrapped) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	if err := w.before(records); err != nil {
		return eventstore.Receipt{}, err
	}
	return w.Store.Append(ctx, records, seen)
}

// runWrapped runs the program over a store in memory that is wrapped.
func runWrapped(t *testing.T, input []string, w *wrapped) (answers, error) {
	dir := t.TempDir()
	o := options{store: "memory:", workers: 4, results: filepath.Join(dir, "r"), balances: filepath.Join(dir, "b"), files: []string{"-"}}
	o.open = func(ctx context.Context, p place) (store eventstore.Store, err error) {
		w.Store, err = openStore(ctx, p)
		return w, err
	}
	var stdout, stderr bytes.Buffer
	code, err := o.run(t.Context(), strings.NewReader(strings.Join(input, "\n")), &stdout, &stderr)
	a := answers{code: code, stdout: stdout.String(), stderr: stderr.String()}
	if err == nil {
		a.read(t, o.results, o.balances)
	} else {
		only(t, dir)
	}
	return a, err
}

func isAbout(records []event.Record, account string) bool {
	return strings.Contains(string(records[0].Data), `"account":"`+account+`"`)
}

// What comes after a line in doubt, and shares something with it, is not run.
func TestDoubtIsHandedOn(t *testing.T) {
	input := []string{
		`{"id":"1","op":"open","account":"A"}`,
		`{"id":"2","op":"open","account":"B"}`,
		`{"id":"3","op":"open","account":"C"}`, // ends in doubt
		`{"id":"4","op":"deposit","account":"A","amount":1}`,
		`{"id":"5","op":"transfer","from":"C","to":"B","amount":1}`, // C is in doubt
		`{"id":"6","op":"open","account":"B"}`,                      // so B is
		`{"id":"5","op":"deposit","account":"A","amount":1}`,        // and the id 5
		`{"id":"7","op":"deposit","account":"A","amount":5}`,        // so A is
		`x`,
		`{"id":"8","op":"open","account":"D"}`,
		`{"id":"3","op":"open","account":"E"}`,
	}
	for want, fail := range map[status]func(w *wrapped, records []event.Record) error{
		unknown: func(*wrapped, []event.Record) error {
			return fmt.Errorf("%w: the answer is lost", eventstore.Ambiguous)
		},
		contended: func(w *wrapped, _ []event.Record) error { // somebody is always faster
			data, _, err := events.Encode(Deposited{"C", Posting{1, 1, ""}}, uuid.Nil)
			if err == nil {
				_, err = w.Store.Append(context.Background(), []event.Record{{ID: uuid.New(), Type: event.TypeOf[Deposited](), Data: data}}, nil)
			}
			return err
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the limits of a call are long
				w := &wrapped{}
				w.before = func(records []event.Record) error {
					require.False(t, isAbout(records, "E"), "line 11 was run")
					if id, _ := command.KeyID(scope, "3"); records[0].ID != id {
						return nil
					}
					return fail(w, records)
				}
				a, err := runWrapped(t, input, w)
				require.NoError(t, err)
				require.Equal(t, 3, a.code, "doubt comes before invalid lines")
				var got []status
				for _, r := range a.results {
					got = append(got, status(r.Status))
				}
				require.Equal(t, []status{
					committed, committed, want, committed, contended, contended, contended, contended, invalid, committed, contended,
				}, got)
				require.EqualValues(t, 1, a.balances["A"])
				require.Contains(t, a.stdout, "run it again")
			})
		})
	}
}

// A store that does not work is no answer to a line.
func TestStoreFails(t *testing.T) {
	for name, failure := range map[string]error{
		"for good":      fmt.Errorf("%w: the file is damaged", eventstore.Permanent),
		"for some time": fmt.Errorf("%w: the disk is full", eventstore.NotApplied),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := runWrapped(t, []string{`{"id":"1","op":"open","account":"A"}`, `x`, `{"id":"3","op":"open","account":"C"}`},
					&wrapped{before: func(records []event.Record) error {
						if isAbout(records, "C") {
							return failure
						}
						return nil
					}})
				require.ErrorIs(t, err, failure)
				require.ErrorContains(t, err, "line 3")
			})
		})
	}
}
