package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
)

// Snapshot implements [eventstore.Store]. All parts are read in one read
// transaction, whose moment is after every commit that was answered before.
func (s *Store) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	if err := eventstore.CheckParts(parts...); err != nil {
		return nil, err
	}
	queries := make([]query, len(parts))
	for i, p := range parts {
		queries[i] = compile(s.boundary.id, p.Query)
	}
	var results []eventstore.Result
	err := s.read(ctx, func(c *session) error {
		results = make([]eventstore.Result, len(parts))
		for i := range parts {
			if err := c.part(&queries[i], parts[i], &results[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err // never with a part of the results
	}
	return results, nil
}

func (s *session) part(q *query, p eventstore.Part, out *eventstore.Result) error {
	upTo, after := int64(top), place(p.After)
	if !p.UpTo.IsZero() {
		upTo = place(p.UpTo)
	}
	if p.LatestOnly {
		found, err := s.latest(q, upTo)
		if err != nil || !found {
			return err
		}
		return keep(s, out)
	}
	err := s.history(q, after+1, upTo, func() (bool, error) { return true, keep(s, out) })
	if err != nil || len(out.Records) > 0 {
		return err
	}
	found, err := s.latest(q, min(after, upTo))
	if found {
		out.Last = position(s.row.pos)
	}
	return err
}

// history calls each for the matches between two positions, ascending, with the
// match as the session's row, until it says no.
func (s *session) history(q *query, from, to int64, each func() (more bool, err error)) error {
	if from > to {
		return nil
	}
	walk := s.scan(q, from, to)
	for {
		found, err := walk.next()
		if err != nil || !found {
			return err
		}
		if more, err := each(); err != nil || !more {
			return err
		}
	}
}

// keep adds the session's row to a result.
func keep(s *session, out *eventstore.Result) error {
	r, err := s.row.record()
	out.Records = append(out.Records, r)
	out.Last = r.Position
	return err
}

// How long a read waits for the file, which others lock only while they recover
// it after a crash.
const readWait = 5 * time.Second

// read runs f in a read transaction, on a connection that is held no longer. It
// may run f again from its beginning.
func (s *Store) read(ctx context.Context, f func(*session) error) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	c, err := s.file.readers.Take(ctx)
	if err != nil {
		return s.readError(ctx, err)
	}
	c.pulse = func() error {
		select {
		case <-s.closing:
			return eventstore.Closed()
		default:
			return ctx.Err()
		}
	}
	err = sqlitedb.Retry(ctx, readWait, func() error { return c.transaction(f) })
	c.pulse = nil
	if c.conn.AutocommitEnabled() {
		s.file.readers.Put(c)
	} else {
		s.file.readers.Drop(c)
	}
	return s.readError(ctx, err)
}

func (s *session) transaction(f func(*session) error) error {
	if err := s.exec("BEGIN"); err != nil {
		return err
	}
	err := f(s)
	if end := s.exec("COMMIT"); err == nil {
		err = end // nothing was written: an error here is odd, but no answer
	}
	if !s.conn.AutocommitEnabled() {
		_ = sqlitedb.Rollback(s.conn)
	}
	return err
}

func (s *session) exec(sql string) error {
	stmt, err := s.conn.Prepare(sql)
	if err != nil {
		return err
	}
	return do(stmt)
}

// readError gives an error of a read its kind: nothing is stored by a read, so
// it is certain.
func (s *Store) readError(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, eventstore.ErrClosed):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("sqlitestore: %w: read: %w", eventstore.NotApplied, context.Cause(ctx))
	}
	return s.file.failure(kindBefore(err), "read", err)
}
