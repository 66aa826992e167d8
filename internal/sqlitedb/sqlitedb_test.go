package sqlitedb

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

const processEnv = "SQLITEDB_TEST_PROCESS"

// TestMain lets a test start this binary again as another process.
func TestMain(m *testing.M) {
	path := os.Getenv(processEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if _, err := AcquireLiveness(path); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until killed
}

func TestOpenSettings(t *testing.T) {
	conn := open(t, filepath.Join(t.TempDir(), "a.db"), Options{Create: true})
	for pragma, want := range map[string]int64{"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1, "foreign_keys": 1, "query_only": 0, "cache_size": -4096} {
		have, err := number(conn, "PRAGMA "+pragma)
		require.NoError(t, err)
		require.Equal(t, want, have, pragma)
	}
	mode, err := text(conn, "PRAGMA journal_mode")
	require.NoError(t, err)
	require.Equal(t, "wal", mode)
}

func TestOddPaths(t *testing.T) {
	names := []string{"a?mode=memory", "a#b", "100%25 sure", "file:x", "ünï 🙂", ":memory:"}
	if runtime.GOOS == "windows" {
		names = []string{"a#b", "100%25 sure", "ünï 🙂"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			conn := open(t, name, Options{Create: true})
			require.NoError(t, Exec(conn, "CREATE TABLE t (x)"))
			_, err := os.Stat(name)
			require.NoError(t, err)
			other := open(t, name, Options{})
			require.NoError(t, Exec(other, "INSERT INTO t VALUES (1)"))
		})
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "no", "a.db"), Options{Create: true})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "create it first")
	_, err = Open(dir, Options{Create: true})
	require.ErrorContains(t, err, "not a regular file")
	_, err = Open("", Options{Create: true})
	require.ErrorContains(t, err, "not a file name")
	_, err = Open(filepath.Join(dir, "missing"), Options{})
	require.ErrorContains(t, err, "unable to open")

	text := filepath.Join(dir, "letter.txt")
	require.NoError(t, os.WriteFile(text, []byte("Dear Sir or Madam, this is no database, I am afraid, but a long letter about one."), 0o600))
	_, err = Open(text, Options{Create: true})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "not a SQLite database")
}

func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	conn := open(t, path, Options{Create: true})
	one := fstest.MapFS{"001_a.sql": {Data: []byte("CREATE TABLE a (x); INSERT INTO a VALUES (1);")}}
	two := fstest.MapFS{"001_a.sql": one["001_a.sql"], "002_b.sql": {Data: []byte("CREATE TABLE b (x);")}}
	bad := fstest.MapFS{"001_a.sql": one["001_a.sql"], "002_b.sql": two["002_b.sql"], "003_c.sql": {Data: []byte("CREATE TABLE c (x); CREATE TABLE a (x);")}}
	schema := func(scripts fs.FS) Schema { return Schema{AppID: 0x1234, What: "a test", Scripts: scripts} }

	require.NoError(t, Migrate(t.Context(), conn, path, schema(one)))
	require.NoError(t, Migrate(t.Context(), conn, path, schema(two)))
	require.NoError(t, Exec(conn, "INSERT INTO b SELECT x FROM a"))
	rows, err := number(conn, "SELECT count(*) FROM b")
	require.NoError(t, err)
	require.EqualValues(t, 1, rows, "001 has run once")

	require.ErrorContains(t, Migrate(t.Context(), conn, path, schema(bad)), "003_c.sql")
	tables, err := number(conn, "SELECT count(*) FROM sqlite_schema")
	require.NoError(t, err)
	require.EqualValues(t, 2, tables, "nothing is left of a script that failed")

	err = Migrate(t.Context(), conn, path, schema(one))
	require.ErrorIs(t, err, ErrNewerSchema)
	require.ErrorContains(t, err, "update the program")
	err = Migrate(t.Context(), conn, path, Schema{AppID: 0x999, What: "a log", Scripts: two})
	require.ErrorIs(t, err, ErrForeignFile)
	require.ErrorContains(t, err, "use another file")
}

func TestMigrateLeavesOthersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	conn := open(t, path, Options{Create: true})
	require.NoError(t, Exec(conn, "CREATE TABLE somebodys (x)"))
	err := Migrate(t.Context(), conn, path, Schema{AppID: 1, What: "a test", Scripts: fstest.MapFS{"1.sql": {Data: []byte("CREATE TABLE a (x)")}}})
	require.ErrorIs(t, err, ErrForeignFile)
}

// Many connections open the same new file at once, each as another process
// would: SQLite's locks are the same for both.
func TestMigrateTogether(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "a.db")
		scripts := fstest.MapFS{"1.sql": {Data: []byte("CREATE TABLE a (x); INSERT INTO a VALUES (1);")}}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				conn, err := Open(path, Options{Create: true})
				if err == nil {
					defer conn.Close()
					err = Migrate(context.Background(), conn, path, Schema{AppID: 7, What: "a test", Scripts: scripts})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		rows, err := number(open(t, path, Options{}), "SELECT count(*) FROM a")
		require.NoError(t, err)
		require.EqualValues(t, 1, rows)
	}
}

func TestBeginWaitsAndGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	a, b := open(t, path, Options{Create: true}), open(t, path, Options{})
	require.NoError(t, Begin(t.Context(), a, 0))
	require.ErrorIs(t, Begin(t.Context(), b, 5*time.Millisecond), ErrLocked)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Begin(gone, b, time.Hour), context.Canceled)

	begun := make(chan error)
	go func() { begun <- Begin(context.Background(), b, time.Minute) }()
	require.NoError(t, Rollback(a))
	require.NoError(t, <-begun)
	require.NoError(t, Rollback(b))
	require.NoError(t, Rollback(b), "nothing to roll back")
}

func TestClassify(t *testing.T) {
	for code, want := range map[sqlite.ResultCode]error{
		sqlite.ResultFull: ErrDiskFull, sqlite.ResultBusySnapshot: ErrLocked, sqlite.ResultLocked: ErrLocked,
		sqlite.ResultReadOnlyDirectory: ErrReadOnly, sqlite.ResultNotADB: ErrCorrupt, sqlite.ResultCorruptVTab: ErrCorrupt,
	} {
		err := Classify(fmt.Errorf("three: %w", fmt.Errorf("deep: %w", code.ToError())))
		require.ErrorIs(t, err, want)
		require.Equal(t, code, sqlite.ErrCode(err))
	}
	require.NoError(t, Classify(nil))
	require.Equal(t, fs.ErrInvalid, Classify(fs.ErrInvalid))
	require.Nil(t, classOf(sqlite.ResultIOErrFsync))
}

func TestLiveness(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock?")
	requireAlive(t, path, false)
	held, err := AcquireLiveness(path)
	require.NoError(t, err)
	requireAlive(t, path, true)
	require.NoError(t, held.Close())
	requireAlive(t, path, false)
}

// Those who look must neither keep a holder out nor see each other.
func TestLivenessUnderLooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	stop := make(chan struct{})
	var looks sync.WaitGroup
	for range 4 {
		looks.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := Alive(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 50 {
		held, err := AcquireLiveness(path)
		require.NoError(t, err)
		requireAlive(t, path, true)
		require.NoError(t, held.Close())
	}
	close(stop)
	looks.Wait()
	requireAlive(t, path, false)
}

func TestLivenessEndsWithTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), processEnv+"="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		_, err = cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "held\n", line)
		requireAlive(t, path, true)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		requireAlive(t, path, false)
	}
}

func requireAlive(t *testing.T, path string, want bool) {
	t.Helper()
	alive, err := Alive(path)
	require.NoError(t, err)
	require.Equal(t, want, alive)
}

func open(t *testing.T, path string, o Options) *sqlite.Conn {
	t.Helper()
	conn, err := Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
