package sqlitetarget

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"zombiezen.com/go/sqlite"
)

// Tx is what a handler reads and writes the model with, inside the transaction
// of its batch, and what [Target.Read] queries it with. It ends with the batch
// or the Read; used after that it returns [ErrTxOver].
//
// Each call takes one SQL statement and its values, for the parameters ?1, ?2
// and so on: strings, []byte, integers, floats, bools, nil and nil pointers
// (NULL), pointers to values, types made of these, time.Time (text in UTC, down
// to the nanosecond, that sorts as the times do), types with MarshalText, such as
// uuid.UUID and consistency.Position (text, which sorts as positions do), and
// types with a Value method, such as sql.Null. An int64 stays exact. Statements are kept prepared.
//
// A handler may use all tables of the file but this package's own, whose names
// begin with "ccc_": those it can only read. It cannot end the transaction, nor
// reach beyond the file, nor change the connection: [ErrForbidden].
//
// A Tx is for the handler's goroutine. Used by several it keeps its order only
// within each statement.
type Tx struct {
	ctx  context.Context
	mode mode

	mu     sync.Mutex
	s      *session // nil: over
	open   []*rows
	broken error // what made SQLite give up the transaction
}

// rows is a query whose rows are being read.
type rows struct {
	stmt *statement // nil: over
}

func newTx(ctx context.Context, s *session, m mode) *Tx {
	// A long statement ends with the context.
	s.conn.SetInterrupt(ctx.Done())
	return &Tx{ctx: ctx, s: s, mode: m}
}

// end takes the connection back. Whoever is inside a call comes out first.
func (x *Tx) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.s == nil {
		return
	}
	for _, r := range x.open {
		x.s.give(r.stmt)
		r.stmt = nil
	}
	x.open = nil
	x.s.conn.SetInterrupt(nil)
	x.s = nil
}

// with runs f with the connection, for statements of a program's or for ours.
func (x *Tx) with(m mode, f func(*session) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.s == nil:
		return fmt.Errorf("sqlitetarget: %w: a Tx must not be used after its handler or Read has returned", ErrTxOver)
	case x.broken != nil:
		return x.broken
	}
	x.s.guard.mode, x.s.guard.denied = m, ""
	defer func(s *session) { s.guard.mode = ours }(x.s)
	err := f(x.s)
	if err != nil && x.s.conn.AutocommitEnabled() {
		// Whatever came now would be committed at once, on its own.
		x.broken = fmt.Errorf("sqlitetarget: %w by SQLite, all of it: %w", ErrRolledBack, err)
		return x.broken
	}
	return err
}

// failure puts an error of a program's statement into words.
func (x *Tx) failure(sql string, err error) error {
	if err == nil {
		return nil
	}
	code := sqlite.ErrCode(err).ToPrimary()
	switch {
	case code == sqlite.ResultAuth && x.s.guard.denied != "":
		err = fmt.Errorf("%w: %s", ErrForbidden, x.s.guard.denied)
	case code == sqlite.ResultInterrupt && x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
	}
	return fmt.Errorf("sqlitetarget: %w: in %.300q", sqlitedb.Classify(err), sql)
}

// start prepares a program's statement and gives it its values.
func (x *Tx) start(s *session, sql string, args []any) (*statement, error) {
	p, err := s.take(sql)
	if err != nil {
		return nil, err
	}
	if len(args) != p.params {
		err = fmt.Errorf("%d values for %d parameters", len(args), p.params)
	}
	for i := 0; i < len(args) && err == nil; i++ {
		if err = bind(p.Stmt, i+1, args[i]); err != nil {
			err = fmt.Errorf("value %d: %w", i+1, err)
		}
	}
	if err != nil {
		s.give(p)
		return nil, err
	}
	return p, nil
}

// Exec runs a statement; rows that it returns are passed over.
func (x *Tx) Exec(sql string, args ...any) error {
	return x.with(x.mode, func(s *session) error {
		p, err := x.start(s, sql, args)
		if err != nil {
			return x.failure(sql, err)
		}
		for more := true; more && err == nil; {
			more, err = p.Step()
		}
		s.give(p)
		return x.failure(sql, err)
	})
}

// Query runs a statement and walks over the rows that it returns:
//
//	for row, err := range tx.Query(`SELECT account, cents FROM balance WHERE cents > ?1`, 100) {
//		if err == nil {
//			err = row.Scan(&account, &cents)
//		}
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// An error is the last pair. The statement runs anew with each walk. Inside the
// loop the Tx may be used; whether the walk shows what is written to its tables
// meanwhile is open.
func (x *Tx) Query(sql string, args ...any) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r := &rows{}
		defer x.finish(r)
		for {
			row, found, err := x.next(r, sql, args)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !found || !yield(row, nil) {
				return
			}
		}
	}
}

// First returns the first row of a query, if there is one.
func (x *Tx) First(sql string, args ...any) (row Row, found bool, err error) {
	for row, err := range x.Query(sql, args...) {
		return row, err == nil, err
	}
	return Row{}, false, nil
}

func (x *Tx) next(r *rows, sql string, args []any) (row Row, found bool, err error) {
	err = x.with(x.mode, func(s *session) (err error) {
		if r.stmt == nil {
			if r.stmt, err = x.start(s, sql, args); err != nil {
				return x.failure(sql, err)
			}
			x.open = append(x.open, r)
		}
		if found, err = r.stmt.Step(); err != nil {
			return x.failure(sql, err)
		}
		if found {
			row = r.stmt.read()
		}
		return nil
	})
	return row, found, err
}

// finish gives the statement back, if end has not done it.
func (x *Tx) finish(r *rows) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.stmt != nil {
		x.s.give(r.stmt)
		r.stmt = nil
		x.open = slices.DeleteFunc(x.open, func(o *rows) bool { return o == r })
	}
}

// over says why the transaction must not be committed, although work is content.
func (x *Tx) over() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken
}
