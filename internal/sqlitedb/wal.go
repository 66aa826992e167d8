package sqlitedb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
)

const (
	walLimit = 16 << 20               // bytes at which the log is emptied
	walPause = 50 * time.Millisecond  // readers and writers are held up no longer
	walAgain = 250 * time.Millisecond // after a try in vain
)

// WALKeeper keeps a write-ahead log from growing without end. SQLite starts the
// log again from its beginning only at a moment when nobody reads from it;
// readers that overlap, each for a short time, never leave one.
type WALKeeper struct {
	// Limit is the size in bytes at which the log is emptied: 16 MiB, if nobody
	// sets another.
	Limit int64

	wal  string
	next time.Time
}

// NewWALKeeper is for the database file at path.
func NewWALKeeper(path string) *WALKeeper {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // SQLite keeps the log beside the real file
	}
	return &WALKeeper{wal: path + "-wal", Limit: walLimit}
}

// Keep empties the log if it is above its limit. It makes the gap itself, by
// holding up this process's readers for a moment with their [Pool.Pause]. conn
// is the caller's writing connection, with no transaction open. If the moment does not come, because of a long read
// or of another process, a later call tries again; that is no error.
func (k *WALKeeper) Keep(conn *sqlite.Conn, pause func(limit time.Duration) (resume func())) error {
	info, err := os.Stat(k.wal)
	if err != nil || info.Size() <= k.Limit || time.Now().Before(k.next) {
		return nil
	}
	k.next = time.Now().Add(walAgain)
	// What can be copied without anyone's leave is copied first: the pause
	// below is then short.
	if err := checkpoint(conn, "PASSIVE"); err != nil && !errors.Is(err, ErrLocked) {
		return err
	}
	resume := pause(walPause)
	if resume == nil {
		return nil
	}
	defer resume()
	err = Retry(context.Background(), walPause, func() error { return checkpoint(conn, "TRUNCATE") })
	if errors.Is(err, ErrLocked) {
		return nil
	}
	k.next = time.Time{}
	return err
}

func checkpoint(conn *sqlite.Conn, mode string) error {
	busy, err := number(conn, "PRAGMA wal_checkpoint("+mode+")")
	if err == nil && busy != 0 {
		err = ErrLocked
	}
	return Classify(err)
}
