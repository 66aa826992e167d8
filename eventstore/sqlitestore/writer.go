package sqlitestore

import (
	"fmt"
	"runtime"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"zombiezen.com/go/sqlite"
)

// write is the file's writer: it commits whatever waits in one transaction,
// again and again. While it commits, more comes to wait; so the groups grow with
// the load, and nobody ever waits for a group to fill.
func (f *file) write() {
	var group []*pending
	for {
		for f.queue.empty() {
			select {
			case <-f.queue.bell:
			case <-f.ctx.Done():
				return
			}
		}
		group = f.round(group[:0])
		clear(group)
	}
}

// round writes one group.
func (f *file) round(group []*pending) []*pending {
	if err := f.open(); err != nil {
		f.queue.drop(nil, f.failure(kindBefore(err), "append", err))
		return group
	}
	// Those who were just answered run first: what they append next goes along.
	runtime.Gosched()
	err := f.start()
	if err != nil {
		// Only now are appends taken: up to here each could be taken back.
		f.queue.drop(nil, f.failure(kindBefore(err), "append", err))
		return group
	}
	group = f.queue.take(group)
	if len(group) == 0 {
		f.rollback()
		return group
	}
	f.commit(group, true)
	if f.writer != nil {
		// An error here is not about any append; the next try may work.
		_ = f.wal.Keep(f.writer.conn, f.readers.Pause)
	}
	return group
}

// open replaces a connection that an error left unusable.
func (f *file) open() (err error) {
	if f.writer == nil {
		f.writer, err = f.openWriter(false)
	}
	return err
}

// start begins the transaction, once it is sure that the file is what it was.
func (f *file) start() error {
	if err := sqlitedb.Begin(f.ctx, f.writer.conn, f.lockWait); err != nil {
		return err
	}
	err := func() error {
		if err := f.unmoved(); err != nil {
			return err
		}
		// A newer program may have changed the file since it was opened.
		version, err := sqlitedb.SchemaVersion(f.writer.conn)
		if err == nil && version != f.schema {
			err = fmt.Errorf("%w: update this program", ErrNewerSchema)
		}
		return err
	}()
	if err != nil {
		f.rollback()
	}
	return err
}

// commit checks and writes a group in the transaction that was begun, and
// answers its appends, all of them after the COMMIT: a conflict with a neighbour
// whose commit then failed would be a lie.
//
// If something fails that is not about one append alone, such as a full disk,
// and nothing was committed for certain, each append gets a transaction of its
// own: one that is too big must not fail its neighbours.
func (f *file) commit(group []*pending, begun bool) {
	kind, err := f.tryCommit(group, begun)
	switch {
	case err == nil:
		f.answer(group, nil)
	case kind != eventstore.Ambiguous && len(group) > 1:
		for i := range group {
			f.commit(group[i:i+1], false)
		}
	default:
		f.answer(group, f.failure(kind, "append", err))
	}
}

func (f *file) tryCommit(group []*pending, begun bool) (eventstore.Kind, error) {
	if !begun {
		err := f.open()
		if err == nil {
			err = f.start()
		}
		if err != nil {
			return kindBefore(err), err
		}
	}
	next, err := f.writer.top()
	for i := 0; i < len(group) && err == nil; i++ {
		p := group[i]
		p.err = nil
		if p.err, err = f.writer.check(p); err != nil || p.err != nil {
			continue
		}
		p.first = next + 1
		next, err = f.writer.insert(p, next)
	}
	if err != nil {
		f.rollback()
		return kindBefore(err), err
	}
	if err := sqlitedb.Commit(f.writer.conn); err != nil {
		return kindAtCommit(err, f.rollback()), err
	}
	return "", nil
}

// rollback leaves the writer ready for the next transaction, if need be with
// another connection. It says whether the transaction is gone for certain.
func (f *file) rollback() bool {
	if err := sqlitedb.Rollback(f.writer.conn); err != nil {
		_ = f.writer.Close()
		f.writer = nil
		return false
	}
	return true
}

func (f *file) answer(group []*pending, err error) {
	for _, p := range group {
		if err != nil {
			p.err = err
		}
		if p.err == nil {
			f.waiters.raise(p.store.boundary, p.first+int64(len(p.events))-1)
		}
		close(p.done)
	}
}

// top returns the last position of the file. Other processes write too, so it
// is read in each transaction.
func (s *session) top() (pos int64, err error) {
	stmt, err := s.conn.Prepare(sqlTop)
	if err != nil {
		return 0, err
	}
	if _, err := stmt.Step(); err != nil {
		return 0, err
	}
	pos = stmt.ColumnInt64(0)
	return pos, stmt.Reset()
}

// check says why an append must not be saved, or what hindered the look.
// Observations come first: who repeats a command wants to hear of a conflict.
func (s *session) check(p *pending) (refusal, err error) {
	for i := range p.checks {
		c := &p.checks[i]
		// Nothing below the observed position needs to be looked at.
		found, err := s.scan(&c.query, top, max(c.at, 1)).next()
		if err != nil {
			return nil, err
		}
		last := int64(0)
		if found {
			last = s.row.pos
		}
		if last != c.at {
			return broken{i, last}, nil
		}
	}
	for i := range p.events {
		stored, err := s.stored(p.store.boundary.id, &p.events[i])
		if err != nil {
			return nil, err
		}
		if stored {
			return duplicate{i}, nil
		}
	}
	return nil, nil
}

// stored says whether an event_id stands in the boundary already.
func (s *session) stored(boundary int64, e *newEvent) (bool, error) {
	var buf [4]int64
	for from := int64(top); from > 0; {
		found, err := s.seek(buf[:0], e.idHash, from, 1, len(buf))
		if err != nil {
			return false, err
		}
		for _, pos := range found {
			if err := s.read(pos); err != nil {
				return false, err
			}
			if s.row.id == e.id && s.row.boundary == boundary {
				return true, nil
			}
			from = pos - 1
		}
		if len(found) < len(buf) {
			break
		}
	}
	return false, nil
}

// insert stores an append behind a position, and returns the new last one.
func (s *session) insert(p *pending, last int64) (int64, error) {
	event, err := s.conn.Prepare(sqlEvent)
	if err != nil {
		return 0, err
	}
	lookup, err := s.conn.Prepare(sqlLookup)
	if err != nil {
		return 0, err
	}
	for i := range p.events {
		e := &p.events[i]
		last++
		event.BindInt64(1, last)
		event.BindInt64(2, p.store.boundary.id)
		event.BindBytes(3, e.id[:])
		event.BindText(4, e.eventType)
		event.BindText(5, string(e.data))
		event.BindText(6, string(e.metadata))
		event.BindInt64(7, e.time)
		if err := do(event); err != nil {
			return 0, err
		}
		for _, h := range e.lookups {
			lookup.BindInt64(1, h)
			lookup.BindInt64(2, last)
			if err := do(lookup); err != nil {
				return 0, err
			}
		}
	}
	return last, nil
}

func do(stmt *sqlite.Stmt) error {
	if _, err := stmt.Step(); err != nil {
		return err
	}
	return stmt.Reset()
}

// dropQueued answers the appends of a store that is being closed.
func (f *file) dropQueued(s *Store) { f.queue.drop(s, eventstore.Closed()) }
