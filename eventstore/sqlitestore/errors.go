package sqlitestore

import (
	"errors"
	"fmt"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"zombiezen.com/go/sqlite"
)

// What went wrong with the file, inside the errors of [Open] and of a [Store].
var (
	// ErrDiskFull: no room for the append. It is [eventstore.NotApplied], and
	// the store goes on by itself once there is room.
	ErrDiskFull = sqlitedb.ErrDiskFull
	// ErrLocked: another process has been writing for longer than
	// [Config.LockWait]. It is [eventstore.NotApplied].
	ErrLocked = sqlitedb.ErrLocked
	// ErrReadOnly: the file or its directory cannot be written.
	ErrReadOnly = sqlitedb.ErrReadOnly
	// ErrCorrupt: the file is damaged, or no SQLite database.
	ErrCorrupt = sqlitedb.ErrCorrupt
	// ErrNoWAL: the file lies where it cannot have a write-ahead log.
	ErrNoWAL = sqlitedb.ErrNoWAL
	// ErrNewerSchema: a newer version of this package has changed the file.
	ErrNewerSchema = sqlitedb.ErrNewerSchema
	// ErrForeignFile: the file is another program's database.
	ErrForeignFile = sqlitedb.ErrForeignFile
	// ErrReplaced: the file was deleted, moved or replaced while it was open.
	ErrReplaced = errors.New("the database file was deleted, moved or replaced while it was open")
)

// kindBefore is the kind of an error from before the COMMIT was tried. Nothing
// of a transaction that was not committed ever comes back: what it may have
// left in the write-ahead log has no commit mark and is passed over.
func kindBefore(err error) eventstore.Kind {
	for _, final := range []error{ErrReadOnly, ErrCorrupt, ErrNewerSchema, ErrReplaced} {
		if errors.Is(err, final) {
			return eventstore.Permanent
		}
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull, sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultProtocol,
		sqlite.ResultIOErr, sqlite.ResultNoMem, sqlite.ResultCantOpen, sqlite.ResultInterrupt:
		return eventstore.NotApplied
	}
	return eventstore.Permanent // such as a table that is not there
}

// kindAtCommit is the kind of an error of COMMIT itself.
//
//   - SQLITE_FULL comes from a write that stored fewer bytes than it was given.
//     The commit mark is in the last frame that is written, so it is not whole,
//     and a frame that is not whole fails its checksum, also after a crash.
//     (SQLite pads the log after the commit mark only on file systems without
//     powersafe overwrite, which it takes all to have by default.)
//   - SQLITE_BUSY comes before anything is written.
//   - Any other error may come after the commit mark: a failed sync leaves it
//     in the file, and a crash before other frames lie over it makes recovery
//     find it.
//
// In the first two cases the transaction can still be open: only a rollback
// that succeeded makes the answer certain.
func kindAtCommit(err error, rolledBack bool) eventstore.Kind {
	if rolledBack && (errors.Is(err, ErrDiskFull) || errors.Is(err, ErrLocked)) {
		return eventstore.NotApplied
	}
	return eventstore.Ambiguous
}

// failure names the file, and says what to do.
func (f *file) failure(kind eventstore.Kind, doing string, err error) error {
	err = sqlitedb.Classify(err)
	advice := ""
	switch {
	case errors.Is(err, ErrDiskFull):
		advice = ": free some space, the store goes on by itself"
	case errors.Is(err, ErrLocked):
		advice = fmt.Sprintf(": another process has been writing for %s: end it, or try again", f.lockWait)
	case errors.Is(err, ErrReadOnly):
		advice = ": make the file and its directory writable"
	case errors.Is(err, ErrCorrupt):
		advice = ": restore a backup, or save what can be saved with the sqlite3 program's .recover"
	case errors.Is(err, ErrReplaced):
		advice = ": put it back, or start the program again"
	}
	return fmt.Errorf("sqlitestore: %s: %w: %s: %w%s", f.path, kind, doing, err, advice)
}
