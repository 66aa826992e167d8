package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
)

// Options of [Open]. The zero value opens an existing file for reading and
// writing.
type Options struct {
	// Create makes the file where it is missing.
	Create bool
	// QueryOnly refuses every statement that would write.
	QueryOnly bool
	// CacheKiB bounds the connection's page cache. Zero means 4 MiB.
	CacheKiB int
}

const openLimit = 10 * time.Second

// Open opens a connection: write-ahead log, every commit synced (on macOS down
// to the medium), foreign keys on, no busy handler: SQLite's own waits grow up
// to 100 ms, [Begin] and [Retry] look again every 0.2 ms instead. The path is a
// plain path: '?', '%' and '#' have no meaning in it, ":memory:" neither.
//
// Errors are classified and say what to do.
func Open(path string, o Options) (*sqlite.Conn, error) {
	abs, err := checkPath(path)
	if err != nil {
		return nil, err
	}
	flags := sqlite.OpenReadWrite
	if o.Create {
		flags |= sqlite.OpenCreate
	}
	// Without OpenURI, and with an absolute path, nothing in the name is special.
	conn, err := sqlite.OpenConn(abs, flags)
	if err != nil {
		return nil, openError(path, err)
	}
	conn.SetBusyTimeout(0)
	err = Retry(context.Background(), openLimit, func() error { return setUp(conn, o) })
	if err != nil {
		return nil, openError(path, errors.Join(err, conn.Close()))
	}
	return conn, nil
}

func setUp(conn *sqlite.Conn, o Options) error {
	mode, err := text(conn, "PRAGMA journal_mode=wal")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the journal mode stays %q", ErrNoWAL, mode)
	}
	cache := o.CacheKiB
	if cache == 0 {
		cache = 4096
	}
	for _, pragma := range []string{
		"synchronous=FULL", "fullfsync=ON", "checkpoint_fullfsync=ON",
		"foreign_keys=ON", fmt.Sprintf("cache_size=-%d", cache),
		fmt.Sprintf("query_only=%t", o.QueryOnly),
	} {
		if err := Exec(conn, "PRAGMA "+pragma); err != nil {
			return err
		}
	}
	return nil
}

// checkPath gives the causes that SQLite calls "unable to open database file"
// names of their own.
func checkPath(path string) (abs string, err error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", fmt.Errorf("sqlite: %q is not a file name: give the path of the database file", path)
	}
	abs, err = filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlite: %s: %w", path, err)
	}
	dir := filepath.Dir(abs)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("sqlite: %s: the directory %s does not exist: create it first: %w", path, dir, fs.ErrNotExist)
	case err != nil:
		return "", fmt.Errorf("sqlite: %s: %w", path, err)
	case !info.IsDir():
		return "", fmt.Errorf("sqlite: %s: %s is not a directory", path, dir)
	}
	if info, err := os.Stat(abs); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("sqlite: %s is not a regular file: give the path of the database file", path)
	}
	return abs, nil
}

func openError(path string, err error) error {
	err = Classify(err)
	advice := "check that this user may read and write the file and its directory"
	switch {
	case errors.Is(err, ErrReadOnly):
		advice = "the file and its directory must be writable, the write-ahead log lies beside it"
	case errors.Is(err, ErrLocked):
		advice = "another program holds the file: end it, or use another file"
	case errors.Is(err, ErrCorrupt):
		advice = "it is not a SQLite database, or it is damaged: use another file, or restore a backup"
	case errors.Is(err, ErrDiskFull):
		advice = "free some space"
	case errors.Is(err, ErrNoWAL):
		advice = "put the file on a local disk whose file system has locks and shared memory"
	}
	return fmt.Errorf("sqlite: open %s: %w: %s", path, err, advice)
}

// Exec runs one statement that has no parameters and whose rows are of no
// interest. It is not kept prepared.
func Exec(conn *sqlite.Conn, sql string) error {
	return eachRow(conn, sql, func(*sqlite.Stmt) {})
}

func text(conn *sqlite.Conn, sql string) (s string, err error) {
	err = eachRow(conn, sql, func(stmt *sqlite.Stmt) { s = stmt.ColumnText(0) })
	return s, err
}

func number(conn *sqlite.Conn, sql string) (n int64, err error) {
	err = eachRow(conn, sql, func(stmt *sqlite.Stmt) { n = stmt.ColumnInt64(0) })
	return n, err
}

func eachRow(conn *sqlite.Conn, sql string, row func(*sqlite.Stmt)) error {
	stmt, rest, err := conn.PrepareTransient(sql)
	if err != nil {
		return err
	}
	defer stmt.Finalize()
	if rest > 0 {
		return fmt.Errorf("sqlite: more than one statement in %q", sql)
	}
	for {
		has, err := stmt.Step()
		if err != nil || !has {
			return err
		}
		row(stmt)
	}
}

// DataVersion changes when another connection, of this process or another, has
// committed to the file. A look costs about two microseconds.
func DataVersion(conn *sqlite.Conn) (int64, error) { return pragma(conn, "PRAGMA data_version") }

// SchemaVersion is the number of scripts that [Migrate] has run on the file.
func SchemaVersion(conn *sqlite.Conn) (int64, error) { return pragma(conn, "PRAGMA user_version") }

// pragma keeps the statement prepared in conn.
func pragma(conn *sqlite.Conn, sql string) (int64, error) {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return 0, Classify(err)
	}
	if _, err := stmt.Step(); err != nil {
		return 0, Classify(err)
	}
	n := stmt.ColumnInt64(0)
	return n, stmt.Reset()
}
