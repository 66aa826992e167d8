package sqlitestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
)

// All statements, each of which finds its rows by a key: none walks a table.
// There is no LIMIT with a parameter: SQLite would prepare the statement again
// for each value, which costs more than the search.
const (
	sqlUp     = `SELECT pos FROM lookup WHERE h = ?1 AND pos BETWEEN ?2 AND ?3 ORDER BY pos`
	sqlDown   = `SELECT pos FROM lookup WHERE h = ?1 AND pos BETWEEN ?3 AND ?2 ORDER BY pos DESC`
	sqlRow    = `SELECT boundary, id, type, data, metadata, time FROM event WHERE pos = ?1`
	sqlTop    = `SELECT max(pos) FROM event`
	sqlEvent  = `INSERT INTO event (pos, boundary, id, type, data, metadata, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`
	sqlLookup = `INSERT INTO lookup (h, pos) VALUES (?1, ?2)`

	sqlBoundary    = `SELECT id, log FROM boundary WHERE name = ?1`
	sqlNewBoundary = `INSERT INTO boundary (name, log) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING`
)

// session is a connection with its statements, used by one goroutine at a time.
type session struct {
	conn *sqlite.Conn
	up   *sqlite.Stmt
	down *sqlite.Stmt
	get  *sqlite.Stmt
	row  row // read last

	seeks *atomic.Int64 // of the file, for tests: how often an index was searched
	// pulse ends a long read early. Nil: never.
	pulse func() error
}

// row is an event as it is stored.
type row struct {
	pos       int64
	boundary  int64
	id        uuid.UUID
	eventType string
	data      []byte
	metadata  []byte
	time      int64

	parsed bool
	parts  []consistency.Tag
}

func openSession(path string, o sqlitedb.Options, seeks *atomic.Int64) (*session, error) {
	conn, err := sqlitedb.Open(path, o)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, seeks: seeks}, nil
}

// prepare is for a file that has its schema.
func (s *session) prepare() (err error) {
	for _, p := range []struct {
		stmt **sqlite.Stmt
		sql  string
	}{{&s.up, sqlUp}, {&s.down, sqlDown}, {&s.get, sqlRow}} {
		if *p.stmt, err = s.conn.Prepare(p.sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) Close() error { return s.conn.Close() }

// seek appends up to limit positions under a hash, from one position to
// another, which may lie before it.
func (s *session) seek(into []int64, h, from, to int64, limit int) ([]int64, error) {
	if s.pulse != nil {
		if err := s.pulse(); err != nil {
			return nil, err
		}
	}
	s.seeks.Add(1)
	stmt := s.up
	if from > to {
		stmt = s.down
	}
	stmt.BindInt64(1, h)
	stmt.BindInt64(2, from)
	stmt.BindInt64(3, to)
	for range limit {
		found, err := stmt.Step()
		if err != nil {
			return nil, err
		}
		if !found {
			break
		}
		into = append(into, stmt.ColumnInt64(0))
	}
	return into, stmt.Reset()
}

// read reads the event at a position that a lookup gave.
func (s *session) read(pos int64) error {
	if s.pulse != nil {
		if err := s.pulse(); err != nil {
			return err
		}
	}
	s.seeks.Add(1)
	stmt := s.get
	stmt.BindInt64(1, pos)
	found, err := stmt.Step()
	if err != nil {
		return err
	}
	if !found {
		return errors.Join(fmt.Errorf("%w: the event at %d is missing", ErrCorrupt, pos), stmt.Reset())
	}
	// One block for both texts, never to be written again: records share it.
	n, m := stmt.ColumnLen(3), stmt.ColumnLen(4)
	texts := make([]byte, n+m)
	stmt.ColumnBytes(3, texts[:n])
	stmt.ColumnBytes(4, texts[n:])
	s.row = row{pos: pos, boundary: stmt.ColumnInt64(0), eventType: stmt.ColumnText(2),
		data: texts[:n:n], metadata: texts[n:], time: stmt.ColumnInt64(5)}
	if size := stmt.ColumnBytes(1, s.row.id[:]); size != len(s.row.id) {
		return errors.Join(fmt.Errorf("%w: the event at %d has no event_id", ErrCorrupt, pos), stmt.Reset())
	}
	return stmt.Reset()
}

// tags of the row, parsed when they are first asked for. Data that cannot be
// parsed was not written by this package and has none.
func (r *row) tags() []consistency.Tag {
	if !r.parsed {
		r.parts, _ = consistency.Tags(r.data)
		r.parsed = true
	}
	return r.parts
}

func (r *row) record() (event.Record, error) {
	out := event.Record{ID: r.id, Type: r.eventType, Data: json.RawMessage(r.data),
		Position: position(r.pos), Time: time.UnixMicro(r.time).UTC()}
	if string(r.metadata) == "{}" {
		return out, nil
	}
	if err := out.Metadata.UnmarshalJSON(r.metadata); err != nil {
		return out, fmt.Errorf("%w: the event at %d: %w", ErrCorrupt, r.pos, err)
	}
	return out, nil
}

// latest finds the latest match of q up to a position; the row of the session
// is then that event.
func (s *session) latest(q *query, upTo int64) (found bool, err error) {
	if upTo < 1 {
		return false, nil
	}
	return s.scan(q, upTo, 1).next()
}

// head returns the position and the event_id of a boundary's last event, zero
// for an empty log.
func (s *session) head(b *boundary) (int64, uuid.UUID, error) {
	found, err := s.latest(&b.all, top)
	if err != nil || !found {
		return 0, uuid.Nil, err
	}
	return s.row.pos, s.row.id, nil
}
