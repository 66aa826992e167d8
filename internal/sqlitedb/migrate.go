package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Schema is what a kind of file holds.
type Schema struct {
	// AppID stands in the file's header and tells it from other programs' files.
	AppID int32
	// What names the kind of file in messages: "an event log".
	What string
	// Scripts are the files *.sql of this file system's root, in the order of
	// their names. Each brings the schema to its next version; a released one
	// is never edited, removed or moved.
	Scripts fs.FS
}

// Migrate brings the file to the last version of s, in one transaction, and
// writes nothing if it has it. Several processes may call it on a new file at
// once. A file that a newer program wrote ([ErrNewerSchema]) and one of another
// kind ([ErrForeignFile]) are left as they are.
func Migrate(ctx context.Context, conn *sqlite.Conn, path string, s Schema) error {
	scripts, err := fs.Glob(s.Scripts, "*.sql") // sorted
	if err != nil {
		return err
	}
	if err := migrate(ctx, conn, s, scripts); err != nil {
		return fmt.Errorf("sqlite: %s: %w", path, Classify(err))
	}
	return nil
}

func migrate(ctx context.Context, conn *sqlite.Conn, s Schema, scripts []string) (err error) {
	var have int
	look := func() (err error) {
		have, err = version(conn, s, len(scripts))
		return err
	}
	if err := Retry(ctx, openLimit, look); err != nil || have == len(scripts) {
		return err
	}
	if err := Begin(ctx, conn, openLimit); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Rollback(conn))
		}
	}()
	// Another process may have done it between the look and the lock.
	if err := look(); err != nil {
		return err
	}
	for i := have; i < len(scripts); i++ {
		script, err := fs.ReadFile(s.Scripts, scripts[i])
		if err != nil {
			return err
		}
		if err := sqlitex.ExecScript(conn, string(script)); err != nil {
			return fmt.Errorf("schema script %s: %w", scripts[i], err)
		}
	}
	if err := Exec(conn, fmt.Sprintf("PRAGMA application_id=%d", s.AppID)); err != nil {
		return err
	}
	if err := Exec(conn, fmt.Sprintf("PRAGMA user_version=%d", len(scripts))); err != nil {
		return err
	}
	return Commit(conn)
}

// version reads how many scripts the file has seen, and refuses what is not for
// this program. All is read by one statement, so as of one moment.
func version(conn *sqlite.Conn, s Schema, known int) (int, error) {
	var app, have, objects int64
	err := eachRow(conn, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`, func(stmt *sqlite.Stmt) {
		app, have, objects = stmt.ColumnInt64(0), stmt.ColumnInt64(1), stmt.ColumnInt64(2)
	})
	switch {
	case err != nil:
		return 0, err
	case app == 0 && have == 0 && objects == 0:
		return 0, nil
	case app != int64(s.AppID):
		return 0, fmt.Errorf("%w: it is not %s (application_id %#x, not %#x): use another file", ErrForeignFile, s.What, app, s.AppID)
	case have > int64(known):
		return 0, fmt.Errorf("%w: it has version %d, this program knows up to %d: update the program, or restore a backup of the file from before", ErrNewerSchema, have, known)
	}
	return int(have), nil
}
