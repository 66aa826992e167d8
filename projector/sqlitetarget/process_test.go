package sqlitetarget

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/stretchr/testify/require"
)

const (
	processEnv = "SQLITETARGET_TEST_PROCESS" // the file's path
	leaseEnv   = "SQLITETARGET_TEST_LEASE"
)

var testName = projector.Name{Projector: "model", Boundary: "default"}

func at(n uint64) projector.Checkpoint {
	return projector.Checkpoint{Position: consistency.NewPosition(0, n)}
}

// put is a work that writes one text and moves the checkpoint.
func put(k, v string, to projector.Checkpoint) func(projector.Batch[*Tx]) (projector.Checkpoint, error) {
	return func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		return to, b.Tx().Exec(`INSERT INTO kv VALUES (?1, ?2) ON CONFLICT DO UPDATE SET v = ?2`, k, v)
	}
}

// process is what another process does: it takes a command a line, and answers
// each with a line. It ends with its input, as if it had crashed.
func process() int {
	lease, _ := time.ParseDuration(os.Getenv(leaseEnv))
	t, err := Config{Lease: lease}.Open(os.Getenv(processEnv), schemaKV)
	fmt.Println("open", says(err))
	ctx := context.Background()
	var claim projector.Claim
	var g projector.Generation[*Tx]
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var err error
		switch command, arg, _ := strings.Cut(in.Text(), " "); command {
		case "claim":
			claim, err = t.Claim(ctx, testName)
		case "apply": // moves the checkpoint by one, and adds 1 to the number under "sum"
			var s projector.State
			if s, err = t.State(ctx, testName); err == nil {
				err = t.Apply(ctx, claim, s.Checkpoint, addOne(s.Checkpoint))
			}
		case "hang": // inside a batch
			err = t.Apply(ctx, claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
				to, err := put("half", "done", at(1))(b)
				fmt.Println("hang", says(err))
				_, _ = os.Stdin.Read(make([]byte, 1))
				return to, err
			})
		case "work": // as often as told, under claims of its own
			err = work(ctx, t, arg)
		case "release":
			err = t.Release(ctx, claim)
		case "close":
			err = t.Close()
		case "read": // answers before its "ok"
			err = t.Read(ctx, func(x *Tx) error {
				v, _, err := get(x, arg)
				fmt.Println(v)
				return err
			})
		case "next": // builds a generation of the tag whose sum is "new"
			if g, err = t.Next(ctx, arg); err == nil {
				err = fill(ctx, g)
			}
		case "switch": // hangs at the moment
			g.(*generation).moment = func(moment string) {
				if moment == arg {
					fmt.Println("at", moment)
					select {}
				}
			}
			err = g.Switch(ctx, func(context.Context) error { return nil })
		}
		fmt.Println(in.Text(), says(err))
	}
	return 0
}

// fill makes the model of a generation, up to 5, and keeps the claim.
func fill(ctx context.Context, g projector.Generation[*Tx]) error {
	s, err := g.State(ctx, testName)
	if err != nil || s.Checkpoint == at(5) {
		return err
	}
	claim, err := g.Claim(ctx, testName)
	if err != nil {
		return err
	}
	return g.Apply(ctx, claim, s.Checkpoint, put("sum", "new", at(5)))
}

func says(err error) string {
	for _, known := range []error{projector.ErrTakenOver, projector.ErrHeld, ErrLocked} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func addOne(from projector.Checkpoint) func(projector.Batch[*Tx]) (projector.Checkpoint, error) {
	return func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		v, _, err := get(b.Tx(), "sum")
		if err != nil {
			return from, err
		}
		n, _ := strconv.Atoi(v)
		_, minor := from.Position.Parts()
		return put("sum", strconv.Itoa(n+1), at(minor+1))(b)
	}
}

func work(ctx context.Context, t *Target, times string) error {
	n, err := strconv.Atoi(times)
	for i := 0; i < n && err == nil; {
		var s projector.State
		var claim projector.Claim
		if s, err = t.State(ctx, testName); err != nil {
			break
		}
		if claim, err = t.Claim(ctx, testName); errors.Is(err, projector.ErrHeld) {
			err = t.Wait(ctx, testName, s)
			continue
		}
		for range 3 {
			if err == nil {
				s, err = t.State(ctx, testName)
			}
			if err == nil {
				err = t.Apply(ctx, claim, s.Checkpoint, addOne(s.Checkpoint))
			}
		}
		err = errors.Join(err, t.Release(ctx, claim))
		i++
	}
	return err
}

// other is another process.
type other struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func start(t *testing.T, path string, lease time.Duration) *other {
	p := &other{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), processEnv+"="+path, leaseEnv+"="+lease.String())
	p.cmd.Stderr = os.Stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

func (p *other) say(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, line+"\n")
	require.NoError(p.t, err)
}

func (p *other) hears(line string) {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "the process has ended")
	require.Equal(p.t, line, p.out.Text())
}

func (p *other) does(command string) {
	p.t.Helper()
	p.say(command)
	p.hears(command + " ok")
}

// kill ends the process at once: kill -9.
func (p *other) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func open(t *testing.T, path string, lease time.Duration) *Target {
	t.Helper()
	target, err := Config{Lease: lease}.Open(path, schemaKV)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	return target
}

// takeOver stands by until the name is free.
func takeOver(t *testing.T, target *Target) (claim projector.Claim, after time.Duration) {
	t.Helper()
	for began := time.Now(); ; {
		s, err := target.State(t.Context(), testName)
		require.NoError(t, err)
		claim, err := target.Claim(t.Context(), testName)
		if err == nil {
			return claim, time.Since(began)
		}
		require.ErrorIs(t, err, projector.ErrHeld)
		require.NoError(t, target.Wait(t.Context(), testName, s))
	}
}

// stateOf is the state without its times.
func stateOf(t *testing.T, target *Target) projector.State {
	t.Helper()
	s, err := target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, s.Checkpoint == projector.Checkpoint{}, s.Moved.IsZero())
	s.Moved = time.Time{}
	return s
}

func read(t *testing.T, target *Target, k string) (v string) {
	t.Helper()
	require.NoError(t, target.Read(t.Context(), func(x *Tx) (err error) {
		v, _, err = get(x, k)
		return err
	}))
	return v
}

// A dead owner's name is free at once, whatever its lease says, and what it left
// behind is cleaned up.
func TestKilledOwner(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	here := open(t, path, time.Hour)
	_, err := here.Claim(t.Context(), projector.Name{Projector: "other", Boundary: "default"})
	require.NoError(t, err)
	p := start(t, path, time.Hour)
	p.hears("open ok")
	p.does("claim")
	p.does("apply")
	_, err = here.Claim(t.Context(), testName)
	require.ErrorIs(t, err, projector.ErrHeld)

	p.kill()
	claim, err := here.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.EqualValues(t, 2, claim.Epoch)
	require.Equal(t, projector.State{Checkpoint: at(1), Epoch: 2, Held: true}, stateOf(t, here))
	require.NoError(t, here.Apply(t.Context(), claim, at(1), addOne(at(1))))
	require.Equal(t, "2", read(t, here, "sum"))
	require.Equal(t, 1, countLocks(t, dir), "ours is there, the dead one's is not")
	require.NoError(t, here.Close())
	requireNoLocks(t, dir)
}

// A standby that waits finds out by itself that the owner has died.
func TestKilledOwnerWhileOthersWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	here := open(t, path, time.Hour)
	p := start(t, path, time.Hour)
	p.hears("open ok")
	p.does("claim")
	type taken struct {
		claim projector.Claim
		after time.Duration
	}
	done := make(chan taken, 1)
	go func() {
		claim, after := takeOver(t, here)
		done <- taken{claim, after}
	}()
	p.kill()
	got := <-done
	require.EqualValues(t, 2, got.claim.Epoch)
	require.Less(t, got.after, time.Minute, "it has waited for the lease")
}

// Nothing stays of a batch whose process was killed, and it locks nobody out.
func TestKilledInsideABatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	here := open(t, path, time.Hour)
	p := start(t, path, time.Hour)
	p.hears("open ok")
	p.does("claim")
	p.say("hang")
	p.hears("hang ok")
	require.Equal(t, projector.State{Epoch: 1, Held: true}, stateOf(t, here))
	p.kill()
	claim, err := here.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.NoError(t, here.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
	require.Empty(t, read(t, here, "half"))
	require.Equal(t, "1", read(t, here, "a"))
}

func TestReleasedByAnotherProcess(t *testing.T) {
	for _, end := range []string{"release", "close"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "model.db")
		here := open(t, path, time.Hour)
		p := start(t, path, time.Hour)
		p.hears("open ok")
		p.does("claim")
		p.does("apply")
		p.does(end)
		requireNoLocks(t, dir)
		claim, err := here.Claim(t.Context(), testName)
		require.NoError(t, err)
		require.NoError(t, here.Apply(t.Context(), claim, at(1), addOne(at(1))))
		if end == "release" {
			p.say("apply")
			p.hears("apply " + projector.ErrTakenOver.Error())
		}
	}
}

// Commits of another process are seen without the time that Wait may take.
func TestWaitSeesOtherProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	here := open(t, path, time.Hour)
	here.waitAtMost = time.Hour
	p := start(t, path, time.Hour)
	p.hears("open ok")
	for _, step := range []string{"claim", "apply", "apply", "release"} {
		before, err := here.State(t.Context(), testName)
		require.NoError(t, err)
		woken := make(chan error, 1)
		go func() { woken <- here.Wait(t.Context(), testName, before) }()
		p.does(step)
		require.NoError(t, <-woken)
		after, err := here.State(t.Context(), testName)
		require.NoError(t, err)
		require.NotEqual(t, before, after)
	}
}

// Several processes make the same new file, and take turns in it.
func TestProcessesTakeTurns(t *testing.T) {
	const processes, turns = 3, 4
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	var all []*other
	for range processes {
		all = append(all, start(t, path, time.Minute))
	}
	for _, p := range all {
		p.say(fmt.Sprint("work ", turns))
	}
	for _, p := range all {
		p.hears("open ok")
		p.hears(fmt.Sprint("work ", turns, " ok"))
		p.does("close")
	}
	require.Equal(t, fmt.Sprint(processes*turns*3), read(t, open(t, path, 0), "sum"))
	requireNoLocks(t, dir)
}

func countLocks(t *testing.T, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.Contains(e.Name(), liveMark) {
			n++
		}
	}
	return n
}

// A living owner that does nothing keeps its name for longer than a lease.
func TestHeartbeat(t *testing.T) {
	const lease = time.Second
	path := filepath.Join(t.TempDir(), "model.db")
	here := open(t, path, lease)
	p := start(t, path, lease)
	p.hears("open ok")
	p.does("claim")
	for began := time.Now(); time.Since(began) < 5*lease/2; {
		s, err := here.State(t.Context(), testName)
		require.NoError(t, err)
		require.True(t, s.Held, "after %s", time.Since(began))
		_, err = here.Claim(t.Context(), testName)
		require.ErrorIs(t, err, projector.ErrHeld)
		require.NoError(t, here.Wait(t.Context(), testName, s))
	}
}
