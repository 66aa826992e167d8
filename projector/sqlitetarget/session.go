package sqlitetarget

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
)

// This package's own statements. Each finds its rows by a key. The schema is
// named, so that no other table can stand before ours.
const (
	// The parameters stand in a query of their own: in a join with parameters
	// SQLite prepares the statement again at each use, for ten times the price.
	sqlKept = `SELECT n.id, e.epoch, e.held, l.owner, l.until, c.position, c.event_id, c.log,
			f.position, f.event_id, f.type, f.attempts, f.first, f.last, f.error, f.halted,
			c.moved, c.applied, c.skipped, x.parked, x.asked,
			EXISTS (SELECT 1 FROM main.ccc_done WHERE name = n.id),
			CASE WHEN x.parked > 0 THEN
				(SELECT min(due) FROM main.ccc_parked WHERE name = n.id AND state = 'waiting' AND due IS NOT NULL) END,
			(SELECT number FROM main.ccc_generation WHERE state = 'live'), f.hold, f.discard
		FROM main.ccc_name n
		LEFT JOIN main.ccc_epoch e ON e.name = n.id
		LEFT JOIN main.ccc_lease l ON l.name = n.id
		LEFT JOIN main.ccc_checkpoint c ON c.name = n.id
		LEFT JOIN main.ccc_failure f ON f.name = n.id
		LEFT JOIN main.ccc_count x ON x.name = n.id
		WHERE n.id = (SELECT id FROM main.ccc_name WHERE projector = ?1 AND boundary = ?2)`

	sqlID    = `SELECT id FROM main.ccc_name WHERE projector = ?1 AND boundary = ?2`
	sqlName  = `INSERT INTO main.ccc_name (projector, boundary) VALUES (?1, ?2) RETURNING id`
	sqlEpoch = `INSERT INTO main.ccc_epoch (name, epoch, held) VALUES (?1, ?2, 1)
		ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, held = 1`
	sqlLease = `INSERT INTO main.ccc_lease (name, epoch, owner, until) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, until = excluded.until`
	sqlRenew   = `UPDATE main.ccc_lease SET until = ?3 WHERE name = ?1 AND epoch = ?2`
	sqlUnhold  = `UPDATE main.ccc_epoch SET held = 0 WHERE name = ?1 AND epoch = ?2`
	sqlUnlease = `DELETE FROM main.ccc_lease WHERE name = ?1 AND epoch = ?2`

	sqlCheckpoint = `INSERT INTO main.ccc_checkpoint (name, position, event_id, log, moved, applied, skipped) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
		ON CONFLICT (name) DO UPDATE SET position = excluded.position, event_id = excluded.event_id, log = excluded.log, moved = excluded.moved,
			applied = applied + excluded.applied, skipped = skipped + excluded.skipped`
	sqlSeen   = `SELECT 1 FROM main.ccc_done WHERE name = ?1 AND event_id = ?2`
	sqlDone   = `INSERT INTO main.ccc_done (name, event_id, position) VALUES (?1, ?2, ?3) ON CONFLICT (name, event_id) DO NOTHING`
	sqlAhead  = `SELECT event_id FROM main.ccc_done WHERE name = ?1 AND position > ?2`
	sqlForget = `DELETE FROM main.ccc_done WHERE name = ?1 AND position <= ?2`

	sqlFailed = `INSERT OR REPLACE INTO main.ccc_failure (name, position, event_id, type, attempts, first, last, error, halted, hold, discard)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`
	sqlUnfailed = `DELETE FROM main.ccc_failure WHERE name = ?1`
)

// session is a connection with its statements, used by one goroutine at a time.
type session struct {
	conn  *sqlite.Conn
	guard guard
	// programs holds the statements of handlers and Reads, while they are idle.
	// They must not be found among our own, which were prepared unguarded.
	programs map[string]*statement
}

func openSession(path string, o sqlitedb.Options) (*session, error) {
	conn, err := sqlitedb.Open(path, o)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, programs: map[string]*statement{}}
	if err := conn.SetAuthorizer(&s.guard); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// Close ends an open transaction, with nothing of it kept.
func (s *session) Close() error {
	s.forget()
	return s.conn.Close()
}

// do runs one of our own statements.
func (s *session) do(sql string, args ...any) error {
	return s.each(sql, func(*sqlite.Stmt) error { return nil }, args...)
}

func (s *session) each(sql string, row func(*sqlite.Stmt) error, args ...any) error {
	stmt, err := s.conn.Prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		if err := bind(stmt, i+1, arg); err != nil {
			return err
		}
	}
	for {
		found, err := stmt.Step()
		if err != nil {
			return err
		}
		if !found {
			return stmt.Reset()
		}
		if err := row(stmt); err != nil {
			return errors.Join(err, stmt.Reset())
		}
	}
}

// kept is what stands in the file under a name.
type kept struct {
	id         int64 // 0: the name was never used
	epoch      int64
	held       bool // not released
	owner      string
	until      int64
	checkpoint projector.Checkpoint
	failure    projector.Failure

	moved            time.Time
	applied, skipped int64
	parked           int
	asked            int64
	marked           bool
	due              time.Time
	live             int64 // the live generation, as this file has it
}

// state is what is told of it.
func (k kept) state(held bool) projector.State {
	return projector.State{
		Checkpoint: k.checkpoint, Failure: k.failure, Epoch: k.epoch, Held: held,
		Moved: k.moved, Applied: k.applied, Skipped: k.skipped, Marked: k.marked, Parked: k.parked, Due: k.due, Asked: k.asked,
	}
}

// kept reads it, all as of one moment.
func (s *session) kept(name projector.Name) (k kept, err error) {
	err = s.each(sqlKept, func(stmt *sqlite.Stmt) (err error) {
		k.id, k.epoch, k.held = stmt.ColumnInt64(0), stmt.ColumnInt64(1), stmt.ColumnBool(2)
		k.owner, k.until = stmt.ColumnText(3), stmt.ColumnInt64(4)
		if !stmt.ColumnIsNull(5) {
			if k.checkpoint.Position, err = positionOf(stmt, 5); err != nil {
				return err
			}
			stmt.ColumnBytes(6, k.checkpoint.EventID[:])
			stmt.ColumnBytes(7, k.checkpoint.Log[:])
		}
		if moved := stmt.ColumnInt64(16); moved != 0 {
			k.moved = timeOf(stmt, 16)
		}
		k.applied, k.skipped = stmt.ColumnInt64(17), stmt.ColumnInt64(18)
		k.parked, k.asked, k.marked, k.due = stmt.ColumnInt(19), stmt.ColumnInt64(20), stmt.ColumnBool(21), timeOf(stmt, 22)
		k.live = stmt.ColumnInt64(23)
		if stmt.ColumnIsNull(8) {
			return nil
		}
		f := &k.failure
		if f.Position, err = positionOf(stmt, 8); err != nil {
			return err
		}
		stmt.ColumnBytes(9, f.EventID[:])
		f.Type, f.Attempts = stmt.ColumnText(10), stmt.ColumnInt(11)
		f.First, f.Last = timeOf(stmt, 12), timeOf(stmt, 13)
		f.Error, f.Halted = stmt.ColumnText(14), stmt.ColumnBool(15)
		f.Hold, f.Discard = stmt.ColumnBool(24), stmt.ColumnText(25)
		return nil
	}, name.Projector, name.Boundary)
	return k, err
}

// id is what the file knows a name by, or 0.
func (s *session) id(name projector.Name) (id int64, err error) {
	err = s.each(sqlID, func(stmt *sqlite.Stmt) error { id = stmt.ColumnInt64(0); return nil }, name.Projector, name.Boundary)
	return id, err
}

func (s *session) newName(name projector.Name) (id int64, err error) {
	err = s.each(sqlName, func(stmt *sqlite.Stmt) error { id = stmt.ColumnInt64(0); return nil }, name.Projector, name.Boundary)
	return id, err
}

func positionOf(stmt *sqlite.Stmt, col int) (consistency.Position, error) {
	p, err := consistency.ParsePosition(stmt.ColumnText(col))
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return p, err
}

func timeOf(stmt *sqlite.Stmt, col int) time.Time {
	if stmt.ColumnIsNull(col) {
		return time.Time{}
	}
	return time.UnixMicro(stmt.ColumnInt64(col)).UTC()
}

func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// setCheckpoint also counts events. A checkpoint that stays counts as not moved.
func (s *session) setCheckpoint(k kept, to projector.Checkpoint, applied, skipped int) error {
	moved := k.moved
	if to != k.checkpoint {
		moved = time.Now()
	}
	at := int64(0)
	if !moved.IsZero() {
		at = moved.UnixMicro()
	}
	return s.do(sqlCheckpoint, k.id, to.Position.String(), to.EventID[:], to.Log[:], at, applied, skipped)
}

func (s *session) setFailure(id int64, f projector.Failure) error {
	if f == (projector.Failure{}) {
		return s.do(sqlUnfailed, id)
	}
	return s.do(sqlFailed, id, f.Position.String(), f.EventID[:], f.Type, f.Attempts, micros(f.First), micros(f.Last), f.Error, f.Halted, f.Hold, f.Discard)
}

func (s *session) seen(id int64, event uuid.UUID) (seen bool, err error) {
	err = s.each(sqlSeen, func(*sqlite.Stmt) error { seen = true; return nil }, id, event[:])
	return seen, err
}

// statement is a prepared one of a program, with what SQLite tells about it.
type statement struct {
	*sqlite.Stmt
	sql    string
	params int
	cols   int
}

// maxStatements bounds how many idle ones a connection keeps: a program may
// write values into its SQL.
const maxStatements = 200

// take hands out a statement to one user. The same SQL taken twice, by a query
// inside its own loop, is two statements.
func (s *session) take(sql string) (*statement, error) {
	if p := s.programs[sql]; p != nil {
		delete(s.programs, sql)
		return p, nil
	}
	stmt, rest, err := s.conn.PrepareTransient(sql)
	if err != nil {
		return nil, err
	}
	p := &statement{Stmt: stmt, sql: sql, params: stmt.BindParamCount(), cols: stmt.ColumnCount()}
	switch after := sql[len(sql)-rest:]; {
	case !blank(after):
		err = fmt.Errorf("more than one statement: give each in a call of its own")
	case p.cols == 0 && p.params == 0 && blank(sql): // SQLite makes no statement of it
		err = fmt.Errorf("no statement")
	}
	if err != nil {
		return nil, errors.Join(err, stmt.Finalize())
	}
	return p, nil
}

// blank says whether there is nothing but blanks, semicolons and comments.
func blank(sql string) bool { return skip(sql) == "" }

// skip cuts off what stands before a statement.
func skip(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f;")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
		default:
			return sql
		}
	}
}

// give takes a statement back.
func (s *session) give(p *statement) {
	_ = p.Reset() // repeats the error of the last step, if any
	if s.programs[p.sql] != nil {
		_ = p.Finalize()
		return
	}
	if len(s.programs) >= maxStatements {
		s.forget()
	}
	s.programs[p.sql] = p
}

func (s *session) forget() {
	for _, p := range s.programs {
		_ = p.Finalize()
	}
	clear(s.programs)
}
