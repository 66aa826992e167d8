package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
)

// How long AcquireLiveness waits: others hold a lock file for a moment, to look.
const livenessLimit = 2 * time.Second

// AcquireLiveness shows that this process lives, until the Closer is closed or
// the process ends, however it ends. It holds an exclusive lock on the file,
// an empty database that is made where it is missing and stays there. If another
// process or another holder in this one shows its life there: [ErrLocked].
//
// A lock of SQLite itself, because it is the same on every system and knows of
// other connections in the process.
func AcquireLiveness(path string) (io.Closer, error) {
	conn, err := openLockFile(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, err
	}
	err = Retry(context.Background(), livenessLimit, func() error { return exclude(conn) })
	if err != nil {
		return nil, fmt.Errorf("sqlite: lock file %s: %w", path, errors.Join(err, conn.Close()))
	}
	return conn, nil
}

// Alive says whether some process, this one too, holds [AcquireLiveness] of the
// file. Nobody does where the file is missing.
func Alive(path string) (bool, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	conn, err := openLockFile(path, sqlite.OpenReadWrite)
	if err != nil {
		if _, gone := os.Stat(path); errors.Is(gone, fs.ErrNotExist) {
			return false, nil // removed since the look above
		}
		return false, err
	}
	defer conn.Close()
	// A read takes a shared lock: those who look do not see each other.
	err = Classify(Exec(conn, "SELECT count(*) FROM sqlite_schema"))
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("sqlite: lock file %s: %w", path, err)
	}
	return false, nil
}

// exclude takes the lock. It begins with writing the first page of the empty
// file: with a journal on disk, a dead process would leave that behind, and
// whoever looks next would have to lock the file for a recovery.
func exclude(conn *sqlite.Conn) error {
	if err := Exec(conn, "PRAGMA journal_mode=memory"); err != nil {
		return err
	}
	return Exec(conn, "BEGIN EXCLUSIVE")
}

func openLockFile(path string, flags sqlite.OpenFlags) (*sqlite.Conn, error) {
	abs, err := checkPath(path)
	if err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(abs, flags)
	if err != nil {
		return nil, openError(path, err)
	}
	conn.SetBusyTimeout(0)
	return conn, nil
}
