package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"zombiezen.com/go/sqlite"
)

const (
	sqlOld     = `SELECT number FROM main.ccc_generation WHERE state = 'old'`
	sqlDropped = `UPDATE main.ccc_generation SET state = 'dropped' WHERE number = ?1`
	sqlFiles   = `SELECT number, state FROM main.ccc_generation`
)

// Drop implements [projector.Generations]. Files that other processes have open
// stay where the system does not let them be removed (Windows); the next Drop or
// Next removes them. Of the base file only what its model needed is dropped.
func (t *Target) Drop(ctx context.Context) (int, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	n, err := t.dropOld(ctx)
	if err != nil {
		err = t.file.failure("drop old generations", err)
	}
	return n, err
}

func (t *Target) dropOld(ctx context.Context) (dropped int, err error) {
	base := t.file
	if base.root != nil {
		return 0, errOneGeneration
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	// The pragma has no effect inside a transaction: so a connection of its own.
	s, err := base.connect(sqlitedb.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.do("PRAGMA foreign_keys=OFF"); err != nil {
		return 0, err
	}
	if err := sqlitedb.Begin(ctx, s.conn, base.lockWait); err != nil {
		return 0, err
	}
	var numbers []int64
	err = s.each(sqlOld, func(stmt *sqlite.Stmt) error { numbers = append(numbers, stmt.ColumnInt64(0)); return nil })
	emptied := false
	for _, number := range numbers {
		if err == nil && number == baseNumber {
			emptied = true
			err = s.empty()
		}
		if err == nil {
			err = s.do(sqlDropped, number)
		}
	}
	if err == nil {
		err = sqlitedb.Commit(s.conn)
	}
	if err != nil {
		return 0, err // Close rolls back
	}
	if emptied {
		_ = sqlitedb.Exec(s.conn, "VACUUM") // gives the room back, if nobody is in the way
	}
	base.clean(ctx)
	return len(numbers), nil
}

// empty drops a program's tables, and all that was known of names.
func (s *session) empty() error {
	type object struct{ kind, name string }
	var all []object
	// Triggers and views first, then virtual tables, which take their own tables
	// with them.
	err := s.each(`SELECT type, name FROM main.sqlite_schema WHERE type IN ('trigger', 'view', 'table')
			AND name NOT LIKE 'ccc\_%' ESCAPE '\' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
		ORDER BY CASE type WHEN 'trigger' THEN 1 WHEN 'view' THEN 2 ELSE 3 END, sql LIKE 'CREATE VIRTUAL%' DESC`,
		func(stmt *sqlite.Stmt) error {
			all = append(all, object{stmt.ColumnText(0), stmt.ColumnText(1)})
			return nil
		})
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := sqlitedb.Exec(s.conn, fmt.Sprintf("DROP %s IF EXISTS main.%s", o.kind, quoted(o.name))); err != nil {
			return err
		}
	}
	for _, table := range []string{"name", "epoch", "lease", "checkpoint", "done", "failure", "parked", "parked_key", "count", "script"} {
		if err := sqlitedb.Exec(s.conn, "DELETE FROM main.ccc_"+table); err != nil {
			return err
		}
	}
	return nil
}

// quoted is a name as SQL has it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// clean removes the files of dropped generations. What it cannot remove the next
// one will.
func (f *file) clean(ctx context.Context) {
	gone := map[int64]bool{}
	err := f.look(ctx, func(s *session) error {
		return s.each(sqlFiles, func(stmt *sqlite.Stmt) error {
			gone[stmt.ColumnInt64(0)] = stmt.ColumnText(1) == dropped
			return nil
		})
	})
	if err != nil {
		return
	}
	entries, _ := os.ReadDir(filepath.Dir(f.path))
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), filepath.Base(f.path)+genMark)
		digits, _, _ := strings.Cut(rest, "-") // -wal, -shm
		number, err := strconv.ParseInt(digits, 10, 64)
		if ours && err == nil && gone[number] {
			_ = removeDatabase(f.beside(filepath.Base(f.path) + genMark + digits))
		}
	}
}

// removeDatabase removes a database file with what SQLite keeps beside it. The
// file goes first: nobody opens it any more and makes the others anew.
func removeDatabase(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
