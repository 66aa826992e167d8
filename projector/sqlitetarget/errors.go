package sqlitetarget

import (
	"errors"
	"fmt"

	"github.com/cccgo/ccc/internal/sqlitedb"
)

// What went wrong with the file, inside the errors of [Open] and of a [Target].
// Nothing of a batch stays that ended with one of them, but see
// [projector.Target] for errors of the commit.
var (
	// ErrDiskFull: no room for what was to be written.
	ErrDiskFull = sqlitedb.ErrDiskFull
	// ErrLocked: another process has been writing for longer than 5 s.
	ErrLocked = sqlitedb.ErrLocked
	// ErrReadOnly: the file or its directory cannot be written.
	ErrReadOnly = sqlitedb.ErrReadOnly
	// ErrCorrupt: the file is damaged, or no SQLite database.
	ErrCorrupt = sqlitedb.ErrCorrupt
	// ErrNoWAL: the file lies where it cannot have a write-ahead log.
	ErrNoWAL = sqlitedb.ErrNoWAL
	// ErrNewerSchema: a newer version of this package has changed the file, or
	// one of your program that has more scripts.
	ErrNewerSchema = sqlitedb.ErrNewerSchema
	// ErrForeignFile: the file is something else's database, such as an event
	// log's.
	ErrForeignFile = sqlitedb.ErrForeignFile
	// ErrReplaced: the file was deleted, moved or replaced while it was open.
	ErrReplaced = errors.New("the database file was deleted, moved or replaced while it was open")
)

// What can be wrong with a program's own SQL.
var (
	// ErrScriptChanged: a schema script is not what was run on the file.
	ErrScriptChanged = errors.New("a schema script has changed")
	// ErrForbidden: the statement is not for where it was given to a [Tx].
	ErrForbidden = errors.New("statement is not allowed here")
	// ErrTxOver: a [Tx] was used after its handler or Read had ended.
	ErrTxOver = errors.New("transaction is over")
	// ErrRolledBack: a failing statement made SQLite give up the whole
	// transaction, so nothing of it can be committed any more.
	ErrRolledBack = errors.New("the transaction was rolled back")
)

var errOneGeneration = errors.New("this is one generation: ask the target that it came from")

// failure names the file and what was tried, and says what to do.
func (f *file) failure(doing string, err error) error {
	err = sqlitedb.Classify(err)
	advice := ""
	switch {
	case errors.Is(err, ErrDiskFull):
		advice = ": free some space"
	case errors.Is(err, ErrLocked):
		advice = ": another process has been writing for a long time: end it, or try again"
	case errors.Is(err, ErrReadOnly):
		advice = ": make the file and its directory writable"
	case errors.Is(err, ErrCorrupt):
		advice = ": restore a backup, or delete the file and its generations to have the model built anew"
	case errors.Is(err, ErrReplaced):
		advice = ": start the program again"
	}
	return fmt.Errorf("sqlitetarget: %s: %s: %w%s", f.path, doing, err, advice)
}
