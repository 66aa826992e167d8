package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The test binary starts itself again as other processes, each with a job.
const jobEnv = "SQLITESTORE_TEST_JOB"

// runJob is the whole life of such a process. It tells of each append that was
// answered as saved, by a line of its own, after the answer.
func runJob(job string, args []string) int {
	path := args[0]
	var err error
	switch job {
	case "claim":
		var keys int
		if keys, err = strconv.Atoi(args[1]); err == nil {
			err = claim(path, keys)
		}
	case "endless":
		err = endless(path)
	case "copy":
		err = copyFiles(path, args[1])
	default:
		err = fmt.Errorf("no job %q", job)
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

// claim tries to be the first to write each key, by several goroutines.
func claim(path string, keys int) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		all.Go(func() {
			for _, k := range rand.Perm(keys) {
				key := strconv.Itoa(k)
				_, err := s.Append(context.Background(), []event.Record{fact("key", key)}, unseen("key", key))
				switch {
				case err == nil:
					fmt.Println("saved", key)
				case !errors.Is(err, eventstore.Conflict):
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return errors.Join(<-errs, s.Close())
}

// endless writes appends of three events each until the process is killed.
func endless(path string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for err == nil {
				name := uuid.NewString()
				_, err := s.Append(context.Background(), facts(3, "append", name), unseen("append", name))
				if err != nil {
					fmt.Println("failed:", err)
					return
				}
				fmt.Println("saved", name)
			}
		})
	}
	all.Wait()
	return errors.New("it was not killed")
}

// copyFiles copies a database as a crash would leave it. It is for another
// process than the one that has the file open, which would lose its locks.
func copyFiles(path, to string) error {
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func startJob(t *testing.T, job string, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), jobEnv+"="+job)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, out
}

// saved reads the lines of a job to their end; a line that was cut off counts as
// not said.
func saved(out io.Reader) (names []string, err error) {
	text, err := io.ReadAll(out)
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		name, ok := strings.CutPrefix(line, "saved ")
		if !ok {
			err = errors.Join(err, errors.New(line))
		}
		names = append(names, strings.TrimSpace(name))
	}
	return names, err
}

// Several processes that write to one file, and this one which watches them:
// each key is won once, by who says so, and the watcher sees each event.
func TestProcessesShareAFile(t *testing.T) {
	processes, keys := 4, 300
	if testing.Short() {
		processes, keys = 2, 100
	}
	path := tempDB(t)
	s := open(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	type end struct {
		names []string
		err   error
	}
	ends := make(chan end, processes)
	for range processes {
		cmd, out := startJob(t, "claim", path, strconv.Itoa(keys))
		go func() {
			names, err := saved(out)
			ends <- end{names, errors.Join(err, cmd.Wait())}
		}()
	}

	found := map[string]int{}
	var after consistency.Position
	for len(found) < keys {
		require.NoError(t, s.Wait(ctx, after), "%d of %d keys were seen", len(found), keys)
		page, err := s.Page(ctx, consistency.All(), after, 0)
		require.NoError(t, err)
		for _, r := range page.Records {
			require.True(t, r.Position.After(after))
			after = r.Position
			found[string(r.Data)]++
		}
	}
	for data, n := range found {
		require.Equal(t, 1, n, data)
	}
	won := map[string]int{}
	for range processes {
		e := <-ends
		require.NoError(t, e.err)
		for _, name := range e.names {
			won[name]++
		}
	}
	require.Len(t, won, keys, "stored and reported")
	for name, n := range won {
		require.Equal(t, 1, n, name)
	}
	require.Equal(t, keys, count(t, s, consistency.All()))
}

// A process that writes is killed again and again. What it said is saved is
// there, whole; what it did not say is there whole or not at all.
func TestKilledWriter(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	path := tempDB(t)
	said := map[string]bool{}
	for range rounds {
		cmd, out := startJob(t, "endless", path)
		lines := bufio.NewReader(out)
		var text strings.Builder
		for range rng.IntN(200) + 1 { // killed after so many answers, wherever it is then
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			text.WriteString(line)
		}
		require.NoError(t, cmd.Process.Kill())
		_, err := io.Copy(&text, lines)
		require.NoError(t, err)
		_ = cmd.Wait()
		names, err := saved(strings.NewReader(text.String()))
		require.NoError(t, err)
		for _, name := range names {
			said[name] = true
		}
		checkKilled(t, path, said)
	}
	require.NotEmpty(t, said)
}

func checkKilled(t *testing.T, path string, said map[string]bool) {
	t.Helper()
	s := open(t, path)
	results, err := s.Snapshot(t.Context(), eventstore.Part{Query: consistency.All()})
	require.NoError(t, err)
	events := map[string]int{}
	for _, r := range results[0].Records {
		tags, err := consistency.Tags(r.Data)
		require.NoError(t, err)
		events[tags[0].Value]++
	}
	for name, n := range events {
		require.Equal(t, 3, n, "half an append: %s", name)
		require.Equal(t, 3, count(t, s, consistency.Where("append", name)), "its lookups")
	}
	for name := range said {
		require.Equal(t, 3, events[name], "answered and lost: %s", name)
	}
	requireSound(t, s)
	require.NoError(t, s.Close())
}

// requireSound asks SQLite whether the file is in order, and counts that each
// event stands under each of its hashes and nothing else does.
func requireSound(t testing.TB, s *Store) {
	t.Helper()
	err := s.read(t.Context(), func(c *session) error {
		check, _, err := c.conn.PrepareTransient("PRAGMA integrity_check")
		if err != nil {
			return err
		}
		defer check.Finalize()
		if _, err := check.Step(); err != nil {
			return err
		}
		if text := check.ColumnText(0); text != "ok" {
			return errors.New(text)
		}
		want := map[[2]int64]bool{}
		top, err := c.top()
		if err != nil {
			return err
		}
		for pos := int64(1); pos <= top; pos++ {
			if err := c.read(pos); err != nil {
				return err
			}
			for _, h := range hashes(c.row.boundary, c.row.id, c.row.eventType, c.row.tags()) {
				want[[2]int64{h, pos}] = true
			}
		}
		lookups, _, err := c.conn.PrepareTransient("SELECT h, pos FROM lookup")
		if err != nil {
			return err
		}
		defer lookups.Finalize()
		n := 0
		for {
			more, err := lookups.Step()
			if err != nil {
				return err
			}
			if !more {
				break
			}
			n++
			if entry := [2]int64{lookups.ColumnInt64(0), lookups.ColumnInt64(1)}; !want[entry] {
				return fmt.Errorf("a lookup of nothing: %v", entry)
			}
		}
		if n != len(want) {
			return fmt.Errorf("%d lookups, not %d", n, len(want))
		}
		return nil
	})
	require.NoError(t, err)
}
