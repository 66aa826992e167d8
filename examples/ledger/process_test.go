package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector/sqlitetarget"
	"github.com/stretchr/testify/require"
)

// process is the program, started as a user does.
type process struct {
	*exec.Cmd
	stdout, stderr    bytes.Buffer
	results, balances string
}

func start(t testing.TB, stdin io.Reader, args ...string) *process {
	dir := t.TempDir()
	p := &process{results: filepath.Join(dir, "results"), balances: filepath.Join(dir, "balances")}
	p.Cmd = exec.Command(program(t), append([]string{"-results", p.results, "-balances", p.balances}, args...)...)
	p.Stdin, p.Stdout, p.Stderr = stdin, &p.stdout, &p.stderr
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// end waits for the process and reads what it has written.
func (p *process) end(t testing.TB) answers {
	if p.ProcessState == nil {
		_ = p.Wait() // the exit code says more
	}
	require.True(t, p.ProcessState.Exited(), p.ProcessState)
	a := answers{code: p.ProcessState.ExitCode(), stdout: p.stdout.String(), stderr: p.stderr.String()}
	if a.code == 1 {
		require.NoFileExists(t, p.results)
		require.NoFileExists(t, p.balances)
	} else {
		a.read(t, p.results, p.balances)
	}
	return a
}

func fileOf(t testing.TB, input []byte) string {
	name := filepath.Join(t.TempDir(), "input.jsonl")
	require.NoError(t, os.WriteFile(name, input, 0o600))
	return name
}

// Killed at any moments, and started again each time, it ends with the answers
// of a run that nobody disturbed.
func TestKilled(t *testing.T) {
	const seed = 7
	e := examOf(t, seed, full(t, 20000, 1000))
	kills := full(t, 30, 5)
	input, store := fileOf(t, e.input), newStore(t)

	program(t)
	began := time.Now()
	e.passed(t, start(t, nil, "-store", newStore(t), "-workers", "16", input).end(t), first)
	undisturbed := time.Since(began)

	random := rand.New(rand.NewPCG(seed, seed))
	var moments []string
	for killed := 0; killed < kills; {
		p := start(t, nil, "-store", store, "-workers", fmt.Sprint(1+15*(killed%2)), input)
		moment := time.Duration(random.Int64N(int64(undisturbed / 3)))
		if killed%5 == 0 {
			moment = time.Duration(random.Int64N(int64(100 * time.Millisecond))) // while it opens its files
		}
		time.Sleep(moment) // the moment is the point: there is nothing to wait for
		require.NoError(t, p.Process.Kill())
		_ = p.Wait()
		if p.ProcessState.Exited() { // it was faster
			e.passed(t, p.end(t), undecided)
			continue
		}
		killed++
		moments = append(moments, moment.Round(time.Millisecond).String())
		if _, err := os.Stat(p.results); err == nil { // killed after the files were there
			require.Len(t, strings.Split(textOf(t, p.results), "\n"), len(e.answers)+1, "the file is whole")
		}
	}
	t.Logf("undisturbed %s, killed after %s", undisturbed.Round(time.Millisecond), strings.Join(moments, " "))
	a := start(t, nil, "-store", store, "-workers", "16", input).end(t)
	e.passed(t, a, undecided)
	b := start(t, nil, "-store", store, "-workers", "1", input).end(t)
	e.passed(t, b, again)
	require.Equal(t, a.positions, b.positions)
}

// Two processes run the same file on the same store at once.
func TestTwoProcesses(t *testing.T) {
	e := examOf(t, 8, full(t, 20000, 1000))
	input, store := fileOf(t, e.input), newStore(t)
	one, two := start(t, nil, "-store", store, "-workers", "16", input), start(t, nil, "-store", store, "-workers", "3", input)
	a, b := one.end(t), two.end(t)
	e.passed(t, a, undecided)
	e.passed(t, b, undecided)
	require.Equal(t, a.positions, b.positions)
	// What one of them did anew, the other one did not.
	did := [2]int{}
	for i, r := range e.answers {
		if r.Status != "committed" && r.Status != "refused" || r.Replayed {
			continue
		}
		fresh := 0
		for k, x := range []bool{a.results[i].Replayed, b.results[i].Replayed} {
			if !x {
				fresh++
				did[k]++
			}
		}
		require.Equal(t, 1, fresh, "line %d", r.Line)
	}
	t.Logf("the one did %d, the other %d", did[0], did[1])
}

// A dead process keeps nobody waiting, although its lease has not run out.
func TestNoWaitForTheDead(t *testing.T) {
	store := newStore(t)
	stdin, to, err := os.Pipe()
	require.NoError(t, err)
	defer to.Close()
	p := start(t, stdin, "-store", store, "-")
	require.NoError(t, stdin.Close())
	_, err = io.WriteString(to, `{"id":"1","op":"open","account":"A"}`+"\n")
	require.NoError(t, err)
	place, err := placeOf(store)
	require.NoError(t, err)
	awaitBalance(t, place, "A", 0) // so it holds the lease
	require.NoError(t, p.Process.Kill())
	require.Error(t, p.Wait())

	began := time.Now()
	a := runHere(t, []byte(`{"id":"2","op":"deposit","account":"A","amount":5}`), "-store", store)
	require.Equal(t, 0, a.code, a.stderr)
	require.Equal(t, map[string]int64{"A": 5}, a.balances)
	require.Less(t, time.Since(began), 7*time.Second, "the lease is 10 s")
}

// While one process is at work, another one comes and goes.
func TestStandby(t *testing.T) {
	store := newStore(t)
	stdin, to, err := os.Pipe()
	require.NoError(t, err)
	p := start(t, stdin, "-store", store, "-")
	require.NoError(t, stdin.Close())
	_, err = io.WriteString(to, `{"id":"1","op":"open","account":"A"}`+"\n")
	require.NoError(t, err)
	place, err := placeOf(store)
	require.NoError(t, err)
	awaitBalance(t, place, "A", 0)

	a := runHere(t, []byte(`{"id":"2","op":"deposit","account":"A","amount":5}`), "-store", store)
	require.Equal(t, 0, a.code, a.stderr)
	require.Equal(t, map[string]int64{"A": 5}, a.balances)

	require.NoError(t, to.Close())
	b := p.end(t)
	require.Equal(t, 0, b.code, b.stderr)
	require.Equal(t, map[string]int64{"A": 5}, b.balances)
}

func TestSignal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals to send")
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		store := newStore(t)
		stdin, to, err := os.Pipe()
		require.NoError(t, err)
		p := start(t, stdin, "-store", store, "-")
		require.NoError(t, stdin.Close())
		_, err = io.WriteString(to, `{"id":"1","op":"open","account":"A"}`+"\n")
		require.NoError(t, err)
		place, err := placeOf(store)
		require.NoError(t, err)
		awaitBalance(t, place, "A", 0)
		require.NoError(t, p.Process.Signal(signal))
		a := p.end(t)
		require.Equal(t, 1, a.code)
		require.Contains(t, a.stderr, "interrupted. Run it again")
		require.Empty(t, a.stdout)
		require.NoError(t, to.Close())
		b := runHere(t, []byte(`{"id":"1","op":"open","account":"A"}`), "-store", store)
		require.Equal(t, 0, b.code)
		require.True(t, b.results[0].Replayed)
	}
}

// A pipe that nobody reads any more is an error, not the end of the program.
func TestReaderGoesAway(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("another kind of pipe")
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	dir := t.TempDir()
	results := filepath.Join(dir, "r")
	cmd := exec.Command(program(t), "-store", "memory:", "-results", results)
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.Error(t, cmd.Run())
	require.NoError(t, w.Close())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, stderr.String(), "broken pipe")
	only(t, dir)
}

// awaitBalance waits until another process has brought a balance into the read
// model.
func awaitBalance(t testing.TB, p place, account string, balance int64) {
	t.Helper()
	until := time.Now().Add(20 * time.Second)
	for time.Now().Before(until) {
		if _, err := os.Stat(p.model); err == nil && shows(t, p, account, balance) {
			return
		}
		time.Sleep(10 * time.Millisecond) // nobody tells another process
	}
	t.Fatalf("the read model never shows %d for %s", balance, account)
}

func shows(t testing.TB, p place, account string, balance int64) bool {
	target, err := sqlitetarget.Open(p.model)
	require.NoError(t, err)
	defer target.Close()
	found := false
	err = target.Read(t.Context(), func(tx *sqlitetarget.Tx) (err error) {
		_, found, err = tx.First(`SELECT 1 FROM balance WHERE account = ?1 AND balance = ?2`, account, balance)
		return err
	})
	if err != nil { // the table is not there yet
		require.ErrorContains(t, err, "no such table")
	}
	return found
}

// A read model of another log is not used, nor changed.
func TestForeignModel(t *testing.T) {
	input := []byte(`{"id":"1","op":"open","account":"A"}`)
	store := newStore(t)
	place, err := placeOf(store)
	require.NoError(t, err)
	require.Equal(t, 0, runHere(t, input, "-store", store).code)
	before := textOf(t, place.model)
	require.NoError(t, os.Remove(place.File))

	for range 2 { // the first time the log is empty, and it stays so
		a := runHere(t, input, "-store", store)
		require.Equal(t, 1, a.code)
		require.Contains(t, a.stderr, place.model+" holds the balances of another log than "+place.File)
		require.Contains(t, a.stderr, "delete "+place.model)
		require.Empty(t, a.stdout)
		require.Equal(t, before, textOf(t, place.model))
	}
	// The advice helps.
	require.NoError(t, os.Remove(place.model))
	a := runHere(t, input, "-store", store)
	require.Equal(t, 0, a.code)
	require.False(t, a.results[0].Replayed, "nothing was done before the model was looked at")

	require.NoError(t, os.WriteFile(place.model, bytes.Repeat([]byte("no database "), 1000), 0o600))
	a = runHere(t, input, "-store", store)
	require.Equal(t, 1, a.code)
	require.Contains(t, a.stderr, place.model)
	require.Contains(t, a.stderr, place.File)
}

// A model that was lost without its log is made anew, and shown when it is
// complete, although no line asks for a position.
func TestLostModel(t *testing.T) {
	e, store := examOf(t, 9, 1000), newStore(t)
	place, err := placeOf(store)
	require.NoError(t, err)
	e.passed(t, runHere(t, e.input, "-store", store), first)
	require.NoError(t, os.Remove(place.model))
	a := runHere(t, []byte("x"), "-store", store)
	require.Equal(t, 2, a.code)
	require.Equal(t, e.balances, a.balances)
}
