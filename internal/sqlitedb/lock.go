package sqlitedb

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"
)

// retryPause is short: two writing processes take turns within a commit, and a
// look at the lock costs microseconds.
const retryPause = 200 * time.Microsecond

// Retry calls f until it returns anything but [ErrLocked], and returns that,
// classified. It gives up when ctx ends, with its cause, or after the limit,
// with f's error; limit 0 is one try.
func Retry(ctx context.Context, limit time.Duration, f func() error) error {
	var begun time.Time
	for {
		err := Classify(f())
		if !errors.Is(err, ErrLocked) {
			return err
		}
		if begun.IsZero() {
			begun = time.Now()
		}
		if time.Since(begun) >= limit {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(retryPause):
		}
	}
}

// Begin starts a transaction that may write, and waits up to limit for other
// writers, as [Retry] does.
func Begin(ctx context.Context, conn *sqlite.Conn, limit time.Duration) error {
	return Retry(ctx, limit, func() error { return run(conn, "BEGIN IMMEDIATE") })
}

// Commit ends the transaction of conn. After an error the transaction may be
// open still: call [Rollback]. Whether it was committed is then for the caller
// to judge by the error.
func Commit(conn *sqlite.Conn) error { return Classify(run(conn, "COMMIT")) }

// Rollback ends the transaction of conn, if there is one, and drops what it
// wrote. After an error the connection is not usable.
func Rollback(conn *sqlite.Conn) error {
	if conn.AutocommitEnabled() {
		return nil // SQLite ends some failed transactions by itself
	}
	return Classify(run(conn, "ROLLBACK"))
}

// run keeps the statement prepared in conn.
func run(conn *sqlite.Conn, sql string) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	if _, err := stmt.Step(); err != nil {
		return err
	}
	return stmt.Reset()
}
