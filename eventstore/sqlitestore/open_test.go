package sqlitestore

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

func TestOpenErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	fails := func(name string, is error, says string) {
		t.Helper()
		_, err := Open(filepath.Join(dir, name))
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, filepath.Base(filepath.Join(dir, name)))
		if is != nil {
			require.ErrorIs(t, err, is)
		}
		require.Empty(t, files.open, "nothing is left open")
	}
	fails("missing/log.db", fs.ErrNotExist, "create it first")
	fails(".", nil, "not a regular file")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte(strings.Repeat("no database ", 1000)), 0o600))
	fails("text", ErrCorrupt, "use another file")

	sql(t, filepath.Join(dir, "other.db"), "CREATE TABLE other (x)")
	fails("other.db", ErrForeignFile, "use another file")

	require.NoError(t, open(t, filepath.Join(dir, "newer.db")).Close())
	sql(t, filepath.Join(dir, "newer.db"), "PRAGMA user_version=99")
	fails("newer.db", ErrNewerSchema, "update the program")

	require.NoError(t, open(t, filepath.Join(dir, "protected.db")).Close())
	onDisk(t, func(c diskCall) int32 {
		if c.op == "open" && strings.HasSuffix(c.name, "protected.db") {
			return readOnlyOpen
		}
		return 0
	})
	fails("protected.db", ErrReadOnly, "read-only")

	_, err := Config{Boundary: "\xff"}.Open(filepath.Join(dir, "log.db"))
	require.ErrorContains(t, err, "boundary")
}

// sql changes a file that no store has open.
func sql(t *testing.T, path string, statements ...string) {
	t.Helper()
	conn, err := sqlitedb.Open(path, sqlitedb.Options{Create: true})
	require.NoError(t, err)
	for _, s := range statements {
		require.NoError(t, sqlitedb.Exec(conn, s))
	}
	require.NoError(t, conn.Close())
}

// Stores of one file share its writer, whatever path they came by, and the file
// is closed with the last of them.
func TestStoresShareAFile(t *testing.T) {
	path := tempDB(t)
	one := open(t, path)
	t.Chdir(filepath.Dir(path))
	paths := []string{"log.db", "./log.db"}
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink("log.db", "link.db"))
		paths = append(paths, "link.db")
	}
	for _, p := range paths {
		two := openWith(t, p, Config{Boundary: "two"})
		require.Same(t, one.file, two.file)
		require.NoError(t, two.Close())
	}
	save(t, one, nil, fact())
	require.NoError(t, one.Close())
	require.Empty(t, files.open)
	_, err := os.Stat(path + "-wal")
	require.ErrorIs(t, err, fs.ErrNotExist, "SQLite removes it when the last connection is closed")
}

func TestBoundariesAreLogs(t *testing.T) {
	path := tempDB(t)
	a, b := openWith(t, path, Config{Boundary: "a"}), openWith(t, path, Config{Boundary: "b"})
	require.NotEqual(t, a.Features().Log, b.Features().Log)
	require.NotEqual(t, uuid.Nil, a.Features().Log)
	same := fact("k", "v", "commandId", uuid.NewString())
	save(t, a, unseen("k", "v"), same)
	save(t, b, unseen("k", "v"), same) // the same event_id too
	require.Equal(t, 1, count(t, a, consistency.Where("k", "v")))
	require.Equal(t, 1, count(t, b, consistency.All()))
	log := a.Features().Log
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	require.Equal(t, log, openWith(t, path, Config{Boundary: "a"}).Features().Log)
	require.NotEqual(t, log, open(t, tempDB(t)).Features().Log)
}

// Processes and goroutines that open and close the same new file at once.
func TestOpenTogether(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		path := tempDB(t)
		var all sync.WaitGroup
		for range 3 {
			cmd, out := startJob(t, "claim", path, "3")
			all.Go(func() {
				if names, err := saved(out); err != nil {
					t.Error(names, err)
				}
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			})
		}
		logs := make(chan uuid.UUID, 100)
		for range 4 {
			all.Go(func() {
				for range 5 {
					s, err := Open(path)
					if err != nil {
						t.Error(err)
						return
					}
					logs <- s.Features().Log
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		close(logs)
		s := open(t, path)
		require.Equal(t, 3, count(t, s, consistency.All()))
		for log := range logs {
			require.Equal(t, s.Features().Log, log)
		}
		require.NoError(t, s.Close())
	}
}

func TestOddPaths(t *testing.T) {
	names := []string{"what?mode=memory", "100% #1", "ünï 🙂.db", "file:log.db", ":memory:"}
	if runtime.GOOS == "windows" {
		names = []string{"100% #1", "ünï 🙂.db"}
	}
	t.Chdir(t.TempDir())
	for _, name := range names {
		s := open(t, name)
		save(t, s, nil, fact())
		require.NoError(t, s.Close())
		require.Equal(t, 1, count(t, open(t, name), consistency.All()))
		_, err := os.Stat(name)
		require.NoError(t, err)
	}
}

// A log that was deleted or replaced while it is open takes no more appends:
// they would go to a file that nobody finds again.
func TestReplacedFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps open files where they are")
	}
	for _, replace := range []bool{false, true} {
		path := tempDB(t)
		s := open(t, path)
		save(t, s, nil, fact())
		require.NoError(t, os.Rename(path, path+".old"))
		if replace {
			sql(t, path, "CREATE TABLE something (x)")
		}
		_, err := s.Append(t.Context(), facts(1), nil)
		requireKind(t, eventstore.Permanent, err)
		require.ErrorIs(t, err, ErrReplaced)
		_, err = s.Snapshot(t.Context(), eventstore.Part{Query: consistency.All()}) // on a new connection
		require.Error(t, err)
	}
}

// A program that is older than the file has become does not write to it.
func TestSchemaChangesWhileOpen(t *testing.T) {
	path := tempDB(t)
	s := open(t, path)
	save(t, s, nil, fact())
	sql(t, path, "PRAGMA user_version=99")
	_, err := s.Append(t.Context(), facts(1), nil)
	requireKind(t, eventstore.Permanent, err)
	require.ErrorIs(t, err, ErrNewerSchema)
	require.Equal(t, 1, count(t, s, consistency.All()))
}

// A page has a bound in bytes too, so that who reads page by page needs little
// memory.
func TestPageHasABoundInBytes(t *testing.T) {
	s := open(t, tempDB(t))
	for range 10 {
		save(t, s, nil, fact("big", strings.Repeat("x", 1<<20-100)))
	}
	page, err := s.Page(t.Context(), consistency.All(), consistency.Position{}, 0)
	require.NoError(t, err)
	require.Len(t, page.Records, 5, "4 MiB and one event")
	require.Equal(t, page.Records[4].Position, page.UpTo)
}

// A damaged page is an error that says so, never a shorter history.
func TestDamagedFile(t *testing.T) {
	path := tempDB(t)
	s := open(t, path)
	for range 20 {
		save(t, s, nil, facts(100, "k", "v", "text", strings.Repeat("x", 200))...)
	}
	require.NoError(t, s.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0) // nobody has it open
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	for at := info.Size() / 2; at < info.Size(); at += 4096 {
		_, err = f.WriteAt([]byte(strings.Repeat("damage", 600)), at-at%4096)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())

	s, err = Open(path)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
		var results []eventstore.Result
		results, err = s.Snapshot(t.Context(), eventstore.Part{Query: consistency.Where("k", "v")})
		require.Nil(t, results)
		requireKind(t, eventstore.Permanent, err)
		_, appended := s.Append(t.Context(), facts(1, "k", "v"), nil)
		if appended != nil {
			require.ErrorIs(t, appended, ErrCorrupt)
			requireKind(t, eventstore.Permanent, appended)
		}
	}
	require.ErrorIs(t, err, ErrCorrupt)
}

// An index that points nowhere, and an event that is not one.
func TestDamagedRows(t *testing.T) {
	for name, damage := range map[string]string{
		"event gone": "DELETE FROM event WHERE pos = 2", "id": "UPDATE event SET id = x'00' WHERE pos = 2",
		"metadata": "UPDATE event SET metadata = '[' WHERE pos = 2",
	} {
		t.Run(name, func(t *testing.T) {
			path := tempDB(t)
			s := open(t, path)
			save(t, s, nil, facts(3, "k", "v")...)
			sql(t, path, damage)
			_, err := s.Snapshot(t.Context(), eventstore.Part{Query: consistency.Where("k", "v")})
			require.ErrorIs(t, err, ErrCorrupt)
			requireKind(t, eventstore.Permanent, err)
			_, err = s.Page(t.Context(), consistency.All(), consistency.Position{}, 0)
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, "backup")
		})
	}
}

// No statement walks a table: each finds its rows by a key.
func TestQueryPlans(t *testing.T) {
	path := tempDB(t)
	require.NoError(t, open(t, path).Close())
	conn, err := sqlitedb.Open(path, sqlitedb.Options{})
	require.NoError(t, err)
	defer conn.Close()
	for _, sql := range []string{sqlUp, sqlDown, sqlRow, sqlTop, sqlEvent, sqlLookup, sqlBoundary, sqlNewBoundary} {
		plan := plan(t, conn, sql)
		require.NotContains(t, plan, "SCAN", sql)
		require.NotContains(t, plan, "TEMP B-TREE", sql)
		if strings.HasPrefix(sql, "SELECT") {
			require.Contains(t, plan, "SEARCH", sql)
		}
	}
	require.Contains(t, plan(t, conn, "SELECT count(*) FROM event WHERE id = ?"), "SCAN", "so it would be seen")
}

func plan(t *testing.T, conn *sqlite.Conn, sql string) string {
	t.Helper()
	stmt, _, err := conn.PrepareTransient("EXPLAIN QUERY PLAN " + sql)
	require.NoError(t, err)
	defer stmt.Finalize()
	var lines []string
	for {
		more, err := stmt.Step()
		require.NoError(t, err)
		if !more {
			return strings.Join(lines, "\n")
		}
		lines = append(lines, stmt.ColumnText(3))
	}
}
