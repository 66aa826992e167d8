package sqlitedb

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
)

// What an error of SQLite means to a program.
var (
	// ErrDiskFull: no room for what was to be written. Nothing of it was kept.
	ErrDiskFull = errors.New("disk full")
	// ErrLocked: another connection or process holds the lock that is needed.
	ErrLocked = errors.New("database is locked")
	// ErrReadOnly: the file, or its directory, cannot be written.
	ErrReadOnly = errors.New("database is read-only")
	// ErrCorrupt: the file is damaged, or no SQLite database at all.
	ErrCorrupt = errors.New("database is corrupt")
	// ErrNoWAL: the file cannot have a write-ahead log where it lies.
	ErrNoWAL = errors.New("no write-ahead log possible")
	// ErrNewerSchema: a newer version of the program has changed the file.
	ErrNewerSchema = errors.New("schema is newer than this program")
	// ErrForeignFile: the file is the database of another program.
	ErrForeignFile = errors.New("database of another program")
)

// Classify wraps err in the sentinel that its SQLite code stands for. Errors
// without such a code, and nil, are returned as they are.
func Classify(err error) error {
	kind := classOf(sqlite.ErrCode(err))
	if err == nil || kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

func classOf(code sqlite.ResultCode) error {
	switch code {
	case sqlite.ResultReadOnlyDBMoved:
		return nil // deleted or renamed under our feet: SQLite's text says so
	}
	switch code.ToPrimary() {
	case sqlite.ResultFull:
		return ErrDiskFull
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultProtocol:
		return ErrLocked
	case sqlite.ResultReadOnly, sqlite.ResultPerm:
		return ErrReadOnly
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return ErrCorrupt
	}
	return nil
}
