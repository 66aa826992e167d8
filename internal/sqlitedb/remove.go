package sqlitedb

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
)

// EndLiveness gives up what [AcquireLiveness] returned and removes its file.
// Nobody else's sign of life can be lost by it if the file is never used again.
func EndLiveness(held io.Closer, path string) error {
	// Where a file can be removed while it is open, nobody finds it unlocked.
	// Elsewhere (Windows) it can only be removed once it is closed, and only
	// while nobody has it open.
	removed := os.Remove(path)
	err := held.Close()
	if removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		removed = os.Remove(path)
	}
	if errors.Is(removed, fs.ErrNotExist) {
		removed = nil
	}
	return errors.Join(err, removed)
}

// RemoveDead removes a file of [AcquireLiveness] whose holder is gone, and
// leaves that of a living one. A file that is not there is no error.
//
// It holds the lock meanwhile. So a process that has made its file and is about
// to lock it can lose the file, but finds that out: once it has the lock, the
// file is either there to stay or gone.
func RemoveDead(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	conn, err := openLockFile(path, sqlite.OpenReadWrite)
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCantOpen {
		return nil // somebody else has removed it; if not, the next try finds it
	}
	if err != nil {
		return err
	}
	// Those who only look hold the lock for microseconds.
	err = Retry(context.Background(), time.Millisecond, func() error { return exclude(conn) })
	if err != nil {
		err = errors.Join(err, conn.Close())
		if errors.Is(err, ErrLocked) {
			return nil
		}
		return err
	}
	return EndLiveness(conn, path)
}
