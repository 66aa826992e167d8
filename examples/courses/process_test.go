package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/eventstore/sqlitestore"
	"github.com/stretchr/testify/require"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

// program builds courses as a user has it, once for all tests.
func program(t testing.TB) string {
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "courses-test-"); built.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", built.dir, ".").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	name := filepath.Join(built.dir, "courses")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func start(t testing.TB, args ...string) *process {
	p := &process{Cmd: exec.Command(program(t), args...)}
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// end waits for its answers, whether they are given for the first time or not.
func (p *process) end(t testing.TB) string {
	require.NoError(t, p.Wait(), p.stderr.String())
	return strings.ReplaceAll(p.stdout.String(), again, "")
}

// longScript offers courses and enrols students at random.
func longScript(t testing.TB, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, seed))
	var b strings.Builder
	n := 0
	add := func(format string, args ...any) {
		n++
		fmt.Fprintf(&b, "k%d "+format+"\n", append([]any{n}, args...)...)
	}
	for c := range someCourses {
		add("offer c%d %d", c, 1+c*c)
	}
	for range 600 {
		add("enrol c%d s%d", random.IntN(someCourses), random.IntN(someStudents))
	}
	name := filepath.Join(t.TempDir(), "script.txt")
	require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
	return name
}

// Killed at any moments and started again each time, it ends with the answers
// of a run that nobody disturbed.
func TestKilled(t *testing.T) {
	seed := rand.Uint64()
	script, file := longScript(t, seed), filepath.Join(t.TempDir(), "courses.db")
	program(t)
	began := time.Now()
	want := start(t, "-store", "sqlite:"+filepath.Join(t.TempDir(), "undisturbed.db"), script).end(t)
	undisturbed := time.Since(began)

	kills := 12
	if testing.Short() {
		kills = 4
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for killed := 0; killed < kills; {
		p := start(t, "-store", "sqlite:"+file, script)
		time.Sleep(time.Duration(random.Int64N(int64(undisturbed / 2)))) // the moment is the point: there is nothing to wait for
		require.NoError(t, p.Process.Kill())
		_ = p.Wait()
		if p.ProcessState.Exited() { // it was faster
			require.Equal(t, want, strings.ReplaceAll(p.stdout.String(), again, ""), "seed %d", seed)
			undisturbed /= 2
			if undisturbed < 20*time.Millisecond {
				break
			}
			continue
		}
		killed++
	}
	require.Equal(t, want, start(t, "-store", "sqlite:"+file, script).end(t), "seed %d", seed)

	store, err := sqlitestore.Open(file)
	require.NoError(t, err)
	defer store.Close()
	holds(t, store, seed)
}

// Two processes run the same script on the same files at once: both have the
// answers of one.
func TestTwoProcesses(t *testing.T) {
	seed := rand.Uint64()
	script := longScript(t, seed)
	want := start(t, "-store", "memory:", script).end(t)
	where := "sqlite:" + filepath.Join(t.TempDir(), "courses.db")
	a, b := start(t, "-store", where, script), start(t, "-store", where, script)
	require.Equal(t, want, a.end(t), "seed %d", seed)
	require.Equal(t, want, b.end(t), "seed %d", seed)
}
