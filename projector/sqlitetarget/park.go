package sqlitetarget

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"zombiezen.com/go/sqlite"
)

// This file's statements. Each finds its rows by a key.
const (
	sqlParkedID = `SELECT id, state = 'waiting' FROM main.ccc_parked WHERE name = ?1 AND position = ?2`
	sqlPark     = `INSERT INTO main.ccc_parked (name, position, event_id, type, data, metadata, time, keys, reason, attempts,
			first, last, error, parked, due, discard, replay, hold)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
		ON CONFLICT (name, position) DO UPDATE SET event_id = excluded.event_id, type = excluded.type, data = excluded.data,
			metadata = excluded.metadata, time = excluded.time, keys = excluded.keys, reason = excluded.reason,
			attempts = excluded.attempts, first = excluded.first, last = excluded.last, error = excluded.error,
			parked = excluded.parked, due = excluded.due, discard = excluded.discard, replay = excluded.replay, hold = excluded.hold,
			state = 'waiting', settled = NULL, discarded = NULL
		RETURNING id`
	sqlSettle = `UPDATE main.ccc_parked SET state = ?3, settled = ?4, discarded = ?5 WHERE name = ?1 AND position = ?2 AND state = 'waiting'`

	sqlParkKey    = `INSERT INTO main.ccc_parked_key (name, key, position, parked) VALUES (?1, ?2, ?3, ?4)`
	sqlUnparkKeys = `DELETE FROM main.ccc_parked_key WHERE parked = ?1 RETURNING key`
	sqlKeys       = `SELECT key FROM main.ccc_parked_key WHERE name = ?1`
	sqlIsParked   = `SELECT 1 FROM main.ccc_parked_key WHERE name = ?1 AND key = ?2 LIMIT 1`
	sqlParkedMore = `INSERT INTO main.ccc_count (name, parked) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET parked = parked + excluded.parked`
)

const noMetadata = "{}"

// maxLoaded is how many parked events a batch remembers the keys of. With more
// it looks in the file for each event.
const maxLoaded = 1000

// keys are the parked ones of a batch's name: how many events wait for each.
type keys struct {
	count  map[string]int // nil: look in the file
	loaded bool
}

// load reads the keys at the first question of a batch; it then keeps them true.
func (b *batch) load(s *session) error {
	if b.keys.loaded {
		return nil
	}
	b.keys.loaded = true
	if b.parked+b.parkedMore > maxLoaded {
		return nil
	}
	b.keys.count = map[string]int{}
	if b.parked+b.parkedMore == 0 {
		return nil
	}
	return s.each(sqlKeys, func(stmt *sqlite.Stmt) error {
		b.keys.count[stmt.ColumnText(0)]++
		return nil
	}, b.name)
}

// more keeps what is loaded true.
func (k *keys) more(key string, n int) {
	if k.count == nil {
		return
	}
	if k.count[key] += n; k.count[key] == 0 {
		delete(k.count, key)
	}
}

func (b *batch) IsParked(keys []string) (parked bool, err error) {
	err = b.tx.with(ours, func(s *session) error {
		if err := b.load(s); err != nil {
			return err
		}
		for _, key := range keys {
			if b.keys.count != nil {
				parked = b.keys.count[key] > 0
			} else if err := s.each(sqlIsParked, func(*sqlite.Stmt) error { parked = true; return nil }, b.name, key); err != nil {
				return err
			}
			if parked {
				return nil
			}
		}
		return nil
	})
	return parked, err
}

func (b *batch) ParkedAt(at consistency.Position) (projector.Parked, bool, error) {
	return b.onePark(sqlParkedAt, at.String())
}

func (b *batch) FirstParked(key string) (projector.Parked, bool, error) {
	return b.onePark(sqlParkedFirst, key)
}

func (b *batch) onePark(sql string, arg any) (p projector.Parked, found bool, err error) {
	err = b.tx.with(ours, func(s *session) error {
		return s.each(sql, func(stmt *sqlite.Stmt) (err error) {
			p, err = parkedOf(stmt)
			found = true
			return err
		}, b.name, arg)
	})
	return p, found && err == nil, err
}

func (b *batch) Park(p projector.Parked) error {
	if p.Record.Position.IsZero() || len(p.Keys) == 0 {
		return fmt.Errorf("sqlitetarget: park event %s at %s with the keys %q: it needs a position and a key", p.Record.ID, p.Record.Position, p.Keys)
	}
	return b.tx.with(ours, func(s *session) error {
		if err := b.park(s, p); err != nil {
			return fmt.Errorf("sqlitetarget: park event %s at %s: %w", p.Record.ID, p.Record.Position, err)
		}
		return nil
	})
}

func (b *batch) park(s *session, p projector.Parked) error {
	metadata, err := metadataText(p.Record.Metadata)
	if err != nil {
		return err
	}
	keys, err := json.Marshal(p.Keys)
	if err != nil {
		return err
	}
	reason := "behind"
	if p.Failed {
		reason = "failed"
	}
	position := p.Record.Position.String()
	was, waits, err := s.parkedID(b.name, position)
	if err != nil {
		return err
	}
	if waits {
		err = b.unpark(s, was)
	} else {
		b.parkedMore++
	}
	if err != nil {
		return err
	}
	var id int64
	err = s.each(sqlPark, func(stmt *sqlite.Stmt) error { id = stmt.ColumnInt64(0); return nil },
		b.name, position, p.Record.ID[:], p.Record.Type, string(p.Record.Data), metadata, microsAlways(p.Record.Time), string(keys), reason, p.Attempts,
		micros(p.First), micros(p.Last), p.Error, microsAlways(p.Since), micros(p.Due), p.Discard, p.Replay, p.Hold)
	if err != nil {
		return err
	}
	for _, key := range p.Keys {
		if err := s.do(sqlParkKey, b.name, key, position, id); err != nil {
			return err
		}
		b.keys.more(key, 1)
	}
	return nil
}

func metadataText(m event.Metadata) (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

// unpark removes the keys of a parked event.
func (b *batch) unpark(s *session, id int64) error {
	return s.each(sqlUnparkKeys, func(stmt *sqlite.Stmt) error {
		b.keys.more(stmt.ColumnText(0), -1)
		return nil
	}, id)
}

func (s *session) parkedID(name int64, position string) (id int64, waits bool, err error) {
	err = s.each(sqlParkedID, func(stmt *sqlite.Stmt) error {
		id, waits = stmt.ColumnInt64(0), stmt.ColumnBool(1)
		return nil
	}, name, position)
	return id, waits, err
}

func (b *batch) Settle(at consistency.Position, as projector.Outcome, reason string) error {
	if as != projector.Applied && as != projector.Discarded {
		return fmt.Errorf("sqlitetarget: settle the event parked at %s: %q is no outcome: it is %q or %q", at, as, projector.Applied, projector.Discarded)
	}
	return b.tx.with(ours, func(s *session) error {
		id, waits, err := s.parkedID(b.name, at.String())
		if err == nil && !waits {
			err = projector.ErrNotParked
		}
		if err == nil {
			err = b.unpark(s, id)
		}
		if err == nil {
			b.parkedMore--
			err = s.do(sqlSettle, b.name, at.String(), string(as), time.Now().UnixMicro(), reason)
		}
		if err != nil {
			return fmt.Errorf("sqlitetarget: settle the event parked at %s: %w", at, err)
		}
		return nil
	})
}
