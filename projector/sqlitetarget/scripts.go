package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"zombiezen.com/go/sqlite"
)

const (
	sqlScripts = `SELECT text, ran FROM main.ccc_script ORDER BY number`
	sqlScript  = `INSERT INTO main.ccc_script (number, text, ran) VALUES (?1, ?2, ?3)`
)

// script is one that was run on the file.
type script struct {
	text string
	ran  time.Time
}

// runScripts runs those that the file has not seen, all or none of them. Without
// scripts the file is taken as it is.
func (f *file) runScripts(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	if err := f.script(texts); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return nil
}

func (f *file) script(texts []string) (err error) {
	s, err := f.connect(sqlitedb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	ctx, ran := context.Background(), 0
	look := func() (err error) {
		if err := f.current(s); err != nil {
			return err
		}
		ran, err = s.compare(texts)
		return err
	}
	if err := sqlitedb.Retry(ctx, f.lockWait, look); err != nil || ran == len(texts) {
		return err
	}
	if err := sqlitedb.Begin(ctx, s.conn, f.lockWait); err != nil {
		return fmt.Errorf("schema scripts: %w", err)
	}
	// Another process may have run them between the look and the lock.
	if err := look(); err != nil {
		return err
	}
	for i := ran; i < len(texts); i++ {
		if err := s.run(texts[i]); err != nil {
			return fmt.Errorf("schema script %d: nothing of it is kept: %w", i+1, sqlitedb.Classify(err))
		}
		if err := s.do(sqlScript, i+1, texts[i], time.Now().UnixMicro()); err != nil {
			return sqlitedb.Classify(err)
		}
	}
	return sqlitedb.Commit(s.conn)
}

// compare says how many of the scripts have run, if they are what has run.
func (s *session) compare(texts []string) (int, error) {
	var ran []script
	err := s.each(sqlScripts, func(stmt *sqlite.Stmt) error {
		ran = append(ran, script{stmt.ColumnText(0), timeOf(stmt, 1)})
		return nil
	})
	if err != nil {
		return 0, err
	}
	for i := range min(len(ran), len(texts)) {
		if have, want := strings.TrimSpace(ran[i].text), strings.TrimSpace(texts[i]); have != want {
			return 0, fmt.Errorf("%w: schema script %d, run on %s, %s: leave it as it was, and bring the change in a further script; or delete the file to have the model built anew",
				ErrScriptChanged, i+1, ran[i].ran.Format(time.DateTime), difference(have, want))
		}
	}
	if len(ran) > len(texts) {
		return 0, fmt.Errorf("%w: %d schema scripts were run on it, this program has %d: update the program", ErrNewerSchema, len(ran), len(texts))
	}
	return len(ran), nil
}

// difference names the first line that differs.
func difference(have, want string) string {
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := 0; ; i++ {
		switch {
		case i == len(a):
			return fmt.Sprintf("ended before line %d, which is now %.80q", i+1, b[i])
		case i == len(b):
			return fmt.Sprintf("had a line %d, %.80q, which is missing now", i+1, a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("had %.80q in line %d, now it is %.80q", a[i], i+1, b[i])
		}
	}
}

// run runs a script, under the rules of handlers.
func (s *session) run(text string) (err error) {
	s.guard.mode = handlers
	defer func() { s.guard.mode = ours }()
	for text = skip(text); text != ""; {
		s.guard.denied = ""
		stmt, rest, err := s.conn.PrepareTransient(text)
		if err == nil && stmt.BindParamCount() > 0 {
			err = errors.New("a schema script has no parameters")
		}
		for more := true; more && err == nil; {
			more, err = stmt.Step()
		}
		if stmt != nil {
			err = errors.Join(err, stmt.Finalize())
		}
		switch {
		case err == nil:
		case s.guard.denied != "" && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultAuth:
			return fmt.Errorf("%w: %s", ErrForbidden, s.guard.denied)
		case s.conn.AutocommitEnabled():
			return fmt.Errorf("%w: %w", ErrRolledBack, err)
		default:
			return err
		}
		text = skip(text[len(text)-rest:])
	}
	return nil
}
