package sqlitetarget

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"zombiezen.com/go/sqlite"
)

// This file's statements. Each finds its rows by a key.
const (
	sqlParkedColumns = `SELECT p.position, p.event_id, p.type, p.data, p.metadata, p.time, p.keys, p.reason = 'failed', p.attempts,
			p.first, p.last, p.error, p.parked, p.due, p.discard, p.replay, p.settled, p.state, p.discarded, p.hold
		FROM main.ccc_parked p`
	sqlParkedRange = ` AND p.position > ?2 AND p.position <= ?3 AND (?4 IS NULL OR p.due <= ?4)`
	sqlParkedOrder = ` ORDER BY p.position LIMIT ?5`

	sqlParkedWaiting = sqlParkedColumns + ` INDEXED BY ccc_parked_waiting WHERE p.name = ?1 AND p.state = 'waiting'` + sqlParkedRange + sqlParkedOrder
	// Those that are due are few as a rule: they are sorted, and no others read.
	sqlParkedDue     = sqlParkedColumns + ` INDEXED BY ccc_parked_due WHERE p.name = ?1 AND p.state = 'waiting' AND p.due IS NOT NULL AND p.due <= ?4` + sqlParkedRange + sqlParkedOrder
	sqlParkedSettled = sqlParkedColumns + ` WHERE p.name = ?1 AND p.state <> 'waiting'` + sqlParkedRange +
		` AND (?6 = '' OR EXISTS (SELECT 1 FROM json_each(p.keys) k WHERE k.value = ?6))` + sqlParkedOrder
	sqlParkedOfKey = sqlParkedColumns + ` JOIN (SELECT parked, position FROM main.ccc_parked_key WHERE name = ?1 AND key = ?6
			AND position > ?2 AND position <= ?3) k ON p.id = k.parked
		WHERE (?4 IS NULL OR p.due <= ?4) ORDER BY k.position LIMIT ?5`
	sqlParkedAt    = sqlParkedColumns + ` WHERE p.name = ?1 AND p.position = ?2 AND p.state = 'waiting'`
	sqlParkedFirst = sqlParkedColumns + ` WHERE p.id = (SELECT parked FROM main.ccc_parked_key WHERE name = ?1 AND key = ?2 ORDER BY position LIMIT 1)`

	sqlAskParked = `UPDATE main.ccc_parked SET due = 0, discard = ?3 WHERE name = ?1 AND position = ?2 AND state = 'waiting'`
	sqlAskFailed = `UPDATE main.ccc_failure SET discard = ?3 WHERE name = ?1 AND position = ?2`
	sqlAsked     = `INSERT INTO main.ccc_count (name, asked) VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET asked = asked + 1`
)

// lastPosition sorts after every position.
const lastPosition = "~"

// Parked implements [projector.Target].
func (t *Target) Parked(ctx context.Context, name projector.Name, q projector.ParkedQuery) ([]projector.Parked, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.calls.Done()
	var parked []projector.Parked
	err := t.look(ctx, func(s *session) (err error) {
		parked, err = s.parked(name, q)
		return err
	})
	if err != nil {
		return nil, t.file.failure("parked events of "+name.String(), err)
	}
	return parked, nil
}

func (s *session) parked(name projector.Name, q projector.ParkedQuery) ([]projector.Parked, error) {
	id, err := s.id(name)
	if err != nil || id == 0 {
		return nil, err
	}
	upTo, limit := lastPosition, 100
	if !q.UpTo.IsZero() {
		upTo = q.UpTo.String()
	}
	if q.Limit > 0 {
		limit = q.Limit
	}
	args := []any{id, q.After.String(), upTo, micros(q.DueBy), limit}
	sql := sqlParkedWaiting
	switch {
	case q.Settled:
		sql, args = sqlParkedSettled, append(args, q.Key)
	case q.Key != "":
		sql, args = sqlParkedOfKey, append(args, q.Key)
	case !q.DueBy.IsZero():
		sql = sqlParkedDue
	}
	var all []projector.Parked
	err = s.each(sql, func(stmt *sqlite.Stmt) error {
		p, err := parkedOf(stmt)
		all = append(all, p)
		return err
	}, args...)
	return all, err
}

// parkedOf reads a row of sqlParkedColumns.
func parkedOf(stmt *sqlite.Stmt) (p projector.Parked, err error) {
	r := &p.Record
	if r.Position, err = positionOf(stmt, 0); err != nil {
		return p, err
	}
	stmt.ColumnBytes(1, r.ID[:])
	r.Type = stmt.ColumnText(2)
	if data := stmt.ColumnText(3); data != "" {
		r.Data = json.RawMessage(data)
	}
	if metadata := stmt.ColumnText(4); metadata != noMetadata {
		if err := r.Metadata.UnmarshalJSON([]byte(metadata)); err != nil {
			return p, fmt.Errorf("%w: the event parked at %s: %w", ErrCorrupt, r.Position, err)
		}
	}
	r.Time = timeOf(stmt, 5)
	if err := json.Unmarshal([]byte(stmt.ColumnText(6)), &p.Keys); err != nil {
		return p, fmt.Errorf("%w: the keys of the event parked at %s: %w", ErrCorrupt, r.Position, err)
	}
	p.Failed, p.Attempts = stmt.ColumnBool(7), stmt.ColumnInt(8)
	p.First, p.Last, p.Error, p.Since = timeOf(stmt, 9), timeOf(stmt, 10), stmt.ColumnText(11), timeOf(stmt, 12)
	p.Due, p.Discard, p.Replay = timeOf(stmt, 13), stmt.ColumnText(14), stmt.ColumnBool(15)
	p.Hold = stmt.ColumnBool(19)
	if p.Settled = timeOf(stmt, 16); !p.Settled.IsZero() {
		p.Outcome, p.Reason = projector.Outcome(stmt.ColumnText(17)), stmt.ColumnText(18)
	}
	return p, nil
}

// Ask implements [projector.Target]. It waits for a writer as Apply does.
func (t *Target) Ask(ctx context.Context, name projector.Name, at consistency.Position, discard string) error {
	return t.write(ctx, "ask "+name.String(), func(_ context.Context, _ *file, s *session) error {
		id, err := s.id(name)
		if err != nil {
			return err
		}
		if !at.IsZero() {
			if err := s.ask(id, at.String(), discard); err != nil {
				return err
			}
		}
		if id == 0 {
			if id, err = s.newName(name); err != nil {
				return err
			}
		}
		return s.do(sqlAsked, id)
	}, func() { t.file.waiters.wake(name) })
}

// ask is about a parked event, or about the failure.
func (s *session) ask(id int64, at, discard string) error {
	err := s.do(sqlAskParked, id, at, discard)
	if err != nil || s.conn.Changes() > 0 {
		return err
	}
	if discard != "" {
		if err := s.do(sqlAskFailed, id, at, discard); err != nil || s.conn.Changes() > 0 {
			return err
		}
	}
	return fmt.Errorf("%w: %s", projector.ErrNotParked, at)
}

// microsAlways is micros for what may not be NULL: the zero time stays one.
func microsAlways(t time.Time) int64 { return t.UnixMicro() }
