package sqlitetarget

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cccgo/ccc/eventstore/sqlitestore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	log, model := filepath.Join(dir, "log.db"), filepath.Join(dir, "model.db")
	store, err := sqlitestore.Open(log)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoError(t, open(t, model, 0).Close())

	_, err = Open(log, schemaKV)
	require.ErrorIs(t, err, ErrForeignFile)
	require.ErrorContains(t, err, "it is not a projector's read model, which needs a file of its own")
	require.ErrorContains(t, err, log)
	_, err = sqlitestore.Open(model)
	require.ErrorIs(t, err, sqlitestore.ErrForeignFile)

	store, err = sqlitestore.Open(log) // both are as they were
	require.NoError(t, err)
	require.NoError(t, store.Close())
	require.NoError(t, open(t, model, 0).Close())
}

func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letter.txt")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("Dear Sir or Madam, ", 300)), 0o600))
	_, err := Open(path, schemaKV)
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = Open(filepath.Join(t.TempDir(), "no", "model.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "create it first")
}

func TestNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target := open(t, path, 0)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	change := raw(t, path)
	require.NoError(t, sqlitedb.Exec(change, "PRAGMA user_version=99"))
	err = target.Apply(t.Context(), claim, at(0), put("a", "1", at(1)))
	require.ErrorIs(t, err, ErrNewerSchema)
	require.ErrorContains(t, err, "update this program")
	require.ErrorIs(t, target.Read(t.Context(), func(*Tx) error { return nil }), ErrNewerSchema)
	_, err = Config{}.Open(path + ".")
	require.NoError(t, errors.Join(err, os.Remove(path+".")))
	require.NoError(t, sqlitedb.Exec(change, fmt.Sprint("PRAGMA user_version=", target.file.schema)))
	require.NoError(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
}

// A file that is gone from under its name takes no more batches: they would be
// lost with the process.
func TestReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target, err := Open(path, schemaKV)
	require.NoError(t, err)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Skip("an open file cannot be moved here")
	}
	require.ErrorIs(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))), ErrReplaced)
	other := open(t, path, 0) // a new file, under the name of the old one
	_, err = other.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.ErrorIs(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))), ErrReplaced)
	require.ErrorIs(t, target.Read(t.Context(), func(*Tx) error { return nil }), ErrReplaced)
	require.ErrorIs(t, target.Close(), ErrReplaced)
	require.Equal(t, 1, countLocks(t, filepath.Dir(path)))
}

// Nothing is lost or half done when there is no room, and it goes on by itself
// once there is.
func TestDiskFull(t *testing.T) {
	target := fresh(t)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.NoError(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
	room := func(pages string) {
		require.NoError(t, sqlitedb.Exec(target.file.writer.conn, "PRAGMA max_page_count="+pages))
	}
	room("1") // SQLite takes it as: no more than there are
	big := strings.Repeat("x", 1<<20)
	for range 3 {
		err = target.Apply(t.Context(), claim, at(1), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
			require.NoError(t, b.Tx().Exec(`UPDATE kv SET v = '2'`))
			err := b.Tx().Exec(`INSERT INTO kv VALUES ('big', ?1)`, big)
			require.ErrorIs(t, err, ErrDiskFull)
			return at(2), err
		})
		require.ErrorIs(t, err, ErrDiskFull)
		err = target.Fail(t.Context(), claim, projector.Failure{Position: at(2).Position, Error: big})
		require.ErrorIs(t, err, ErrDiskFull)
		require.ErrorContains(t, err, "free some space")
		require.Equal(t, projector.State{Checkpoint: at(1), Epoch: 1, Held: true}, stateOf(t, target))
		require.Equal(t, "1", read(t, target, "a"))
	}
	// A handler that does not care about its errors commits what did fit, or
	// nothing: never half.
	err = target.Apply(t.Context(), claim, at(1), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		require.ErrorIs(t, b.Tx().Exec(`INSERT INTO kv VALUES ('big', ?1)`, big), ErrDiskFull)
		return at(2), b.Tx().Exec(`UPDATE kv SET v = '2'`)
	})
	s, stateErr := target.State(t.Context(), testName)
	require.NoError(t, stateErr)
	require.Equal(t, err == nil, s.Checkpoint == at(2))
	require.Equal(t, err == nil, read(t, target, "a") == "2")
	room("1000000")
	require.NoError(t, target.Apply(t.Context(), claim, s.Checkpoint, put("big", big, at(3))))
	require.Equal(t, big, read(t, target, "big"))
}

// Another writer is waited for, and named if it does not end. Readers never wait.
func TestLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target := open(t, path, 0)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	writer := raw(t, path)
	require.NoError(t, sqlitedb.Begin(t.Context(), writer, 0))

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = target.Apply(ctx, claim, at(0), put("a", "1", at(1)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ErrLocked)
	target.file.lockWait = 20 * time.Millisecond
	require.ErrorIs(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))), ErrLocked)
	require.ErrorIs(t, target.Fail(t.Context(), claim, projector.Failure{}), ErrLocked)
	_, err = target.Claim(t.Context(), testName)
	require.ErrorIs(t, err, projector.ErrHeld, "a look waits for nobody")
	_, err = target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Empty(t, read(t, target, "a"))

	target.file.lockWait = time.Minute
	done := make(chan error, 1)
	go func() { done <- target.Apply(context.Background(), claim, at(0), put("a", "1", at(1))) }()
	require.NoError(t, sqlitedb.Rollback(writer))
	require.NoError(t, <-done)
}

func TestCorruptFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target, err := Open(path, schemaKV)
	require.NoError(t, err)
	for i := range 50 {
		require.NoError(t, handler(t, target, execs(`INSERT INTO kv VALUES (?1, ?2)`, i, strings.Repeat("abc", 1000))))
	}
	require.NoError(t, target.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	from := bytes.Index(data, []byte("abcabc")) / 4096 * 4096
	copy(data[from:], bytes.Repeat([]byte{0xa5}, 40*4096))
	require.NoError(t, os.WriteFile(path, data, 0o600))

	target, err = Open(path, schemaKV)
	if err == nil {
		defer target.Close()
		err = target.Read(t.Context(), queries(`SELECT sum(length(v)) FROM kv`))
	}
	require.ErrorIs(t, err, ErrCorrupt)
}

// A file that cannot be written any more, as SQLite says it; file modes do not
// bind every user.
func TestReadOnlyFile(t *testing.T) {
	target := fresh(t)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.NoError(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
	readOnly := func(is string) {
		require.NoError(t, sqlitedb.Exec(target.file.writer.conn, "PRAGMA query_only="+is))
	}
	readOnly("ON")
	err = target.Apply(t.Context(), claim, at(1), put("a", "2", at(2)))
	require.ErrorIs(t, err, ErrReadOnly)
	s, err := target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, at(1), s.Checkpoint)
	require.Equal(t, "1", read(t, target, "a"))
	readOnly("OFF")
	require.NoError(t, target.Apply(t.Context(), claim, at(1), put("a", "2", at(2))))
}

// Paths that lead to the same file lead to the same writer and the same locks.
func TestLinkedFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "model.db"), filepath.Join(t.TempDir(), "link.db")
	a := open(t, path, time.Hour)
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	b := open(t, link, time.Hour)
	require.Same(t, a.file, b.file)
	claim, err := a.Claim(t.Context(), testName)
	require.NoError(t, err)
	_, err = b.Claim(t.Context(), testName)
	require.ErrorIs(t, err, projector.ErrHeld)
	require.NoError(t, a.Release(t.Context(), claim))
	require.NoError(t, a.Close())
	c := open(t, link, time.Hour)
	require.Same(t, b.file, c.file)
	claim, err = b.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, 1, countLocks(t, dir))
	require.NoError(t, c.Apply(t.Context(), claim, at(0), put("a", "1", at(1))), "a claim is good on each Target of the file")

	require.NoError(t, b.Release(t.Context(), claim))
	p := start(t, link, time.Hour)
	p.hears("open ok")
	p.does("claim")
	require.Equal(t, 1, countLocks(t, dir), "another process finds the same place by the link")
	_, err = b.Claim(t.Context(), testName)
	require.ErrorIs(t, err, projector.ErrHeld)
}

// Nothing is left of a target that was closed, however often.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	cycle := func() {
		target, err := Open(filepath.Join(dir, "model.db"), schemaKV)
		require.NoError(t, err)
		claim, err := target.Claim(t.Context(), testName)
		require.NoError(t, err)
		s, err := target.State(t.Context(), testName)
		require.NoError(t, err)
		require.NoError(t, target.Apply(t.Context(), claim, s.Checkpoint, addOne(s.Checkpoint)))
		require.NoError(t, target.Wait(t.Context(), testName, s))
		require.NotEmpty(t, read(t, target, "sum"))
		require.NoError(t, target.Close())
		require.NoError(t, target.Close(), "a second Close")
	}
	cycle()
	require.Len(t, dirNames(t, dir), 1, "only the model itself")
	routines, open := runtime.NumGoroutine(), openFiles()
	for range 50 {
		cycle()
	}
	require.Len(t, dirNames(t, dir), 1)
	require.Equal(t, open, openFiles())
	require.LessOrEqual(t, runtime.NumGoroutine(), routines)
}

// openFiles is how many this process has open, where that can be known.
func openFiles() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

func dirNames(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// raw is a connection of nobody.
func raw(t testing.TB, path string) *sqlite.Conn {
	t.Helper()
	conn, err := sqlitedb.Open(path, sqlitedb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

//go:embed *.go
var source embed.FS

// None of our statements walks over a table.
func TestStatementsSearch(t *testing.T) {
	target := fresh(t)
	require.NoError(t, handler(t, target, execs(`SELECT 1`)))
	all := []string{sqlKept, sqlID, sqlName, sqlEpoch, sqlLease, sqlRenew, sqlUnhold, sqlUnlease, sqlCheckpoint, sqlSeen, sqlDone, sqlForget, sqlAhead, sqlFailed, sqlUnfailed,
		sqlParkedWaiting, sqlParkedDue, sqlParkedSettled, sqlParkedOfKey, sqlParkedAt, sqlParkedFirst, sqlAskParked, sqlAskFailed, sqlAsked,
		sqlParkedID, sqlPark, sqlSettle, sqlParkKey, sqlUnparkKeys, sqlKeys, sqlIsParked, sqlParkedMore,
	}
	statements := 0
	for _, name := range []string{"session.go", "park.go", "parked.go"} {
		text, err := source.ReadFile(name)
		require.NoError(t, err)
		statements += len(regexp.MustCompile(`(?m)^\tsql\w+ +=`).FindAll(text, -1))
	}
	require.Equal(t, statements-3, len(all), "all of them, but for parts")
	conn := raw(t, target.file.path)
	for _, sql := range all {
		stmt, _, err := conn.PrepareTransient("EXPLAIN QUERY PLAN " + sql)
		require.NoError(t, err, sql)
		for {
			more, err := stmt.Step()
			require.NoError(t, err)
			if !more {
				break
			}
			step := stmt.ColumnText(3)
			if strings.HasPrefix(step, "SCAN") {
				require.Contains(t, step, "VIRTUAL TABLE", sql) // the keys inside a row
			}
			if sql != sqlParkedDue {
				require.NotContains(t, step, "TEMP B-TREE", sql)
			}
		}
		require.NoError(t, stmt.Finalize())
	}
}

// The checkpoint keeps what tells a foreign log.
func TestCheckpointTellsTheLog(t *testing.T) {
	target := fresh(t)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	to := projector.Checkpoint{Position: at(7).Position, EventID: uuid.New(), Log: uuid.New()}
	require.NoError(t, target.Apply(t.Context(), claim, at(0), put("a", "1", to)))
	s, err := target.State(t.Context(), testName)
	require.NoError(t, err)
	require.Equal(t, to, s.Checkpoint)
}
