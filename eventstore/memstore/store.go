package memstore

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// Store is a log in memory; use [New]. It is safe for concurrent use.
//
// What it returns shares memory with the log: the Data and Metadata.Custom of
// a record must not be changed. What is appended is copied.
type Store struct {
	log uuid.UUID

	// mu is held for map look-ups and for an append, never while records are
	// gathered or anything is waited for.
	mu    sync.RWMutex
	index index
	ids   map[uuid.UUID]struct{}
	// changed is closed by the next append; nil while nobody waits.
	changed chan struct{}
	closed  bool
}

var _ eventstore.Store = (*Store)(nil)

// New returns an empty log.
func New() *Store {
	return &Store{log: uuid.New(), index: newIndex(), ids: map[uuid.UUID]struct{}{}}
}

// Features implements [eventstore.Store].
func (s *Store) Features() eventstore.Features {
	return eventstore.Features{UniqueEventIDs: true, Log: s.log}
}

// Append implements [eventstore.Store].
func (s *Store) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	tags, err := eventstore.CheckAppend(records, seen)
	if err != nil {
		return eventstore.Receipt{}, err
	}
	saved := keep(records)
	positions := make([]consistency.Position, len(records))

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return eventstore.Receipt{}, eventstore.Closed()
	}
	if ctx.Err() != nil {
		return eventstore.Receipt{}, eventstore.NotStarted(ctx)
	}
	for i := range seen {
		if err := s.index.check(&seen[i]); err != nil {
			return eventstore.Receipt{}, err
		}
	}
	for i := range saved {
		if _, stored := s.ids[saved[i].ID]; stored {
			return eventstore.Receipt{}, fmt.Errorf("memstore: %w: event %d: %w: %s", eventstore.Permanent, i, eventstore.ErrDuplicateEvent, saved[i].ID)
		}
	}
	for i := range saved {
		s.ids[saved[i].ID] = struct{}{}
		positions[i] = s.index.add(&saved[i], tags[i])
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return eventstore.Receipt{Positions: positions}, nil
}

// keep copies records, so that the caller cannot change the log later.
func keep(records []event.Record) []event.Record {
	size, untimed := 0, false
	for i := range records {
		size += len(records[i].Data)
		untimed = untimed || records[i].Time.IsZero()
	}
	var now time.Time
	if untimed {
		now = time.Now()
	}
	all := make([]byte, 0, size)
	saved := make([]event.Record, len(records))
	for i, r := range records {
		at := len(all)
		all = append(all, r.Data...)
		r.Data = all[at:len(all):len(all)]
		r.Metadata.Custom = maps.Clone(r.Metadata.Custom)
		if r.Time.IsZero() {
			r.Time = now
		}
		r.Time = r.Time.UTC().Truncate(time.Microsecond)
		saved[i] = r
	}
	return saved
}

// Snapshot implements [eventstore.Store].
func (s *Store) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	if err := eventstore.CheckParts(parts...); err != nil {
		return nil, err
	}
	walks := make([]walk, len(parts))
	if err := s.read(ctx, func() {
		for i, p := range parts {
			walks[i] = s.index.walk(p.Query)
		}
	}); err != nil {
		return nil, err
	}
	results := make([]eventstore.Result, len(parts))
	for i, p := range parts {
		results[i] = walks[i].result(p)
	}
	return results, nil
}

// Page implements [eventstore.Store].
func (s *Store) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	if err := eventstore.CheckParts(eventstore.Part{Query: q}); err != nil {
		return eventstore.Page{}, err
	}
	var w walk
	if err := s.read(ctx, func() { w = s.index.walk(q) }); err != nil {
		return eventstore.Page{}, err
	}
	return w.page(after, limit), nil
}

// read runs find as of one moment.
func (s *Store) read(ctx context.Context, find func()) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return eventstore.Closed()
	}
	if ctx.Err() != nil {
		return fmt.Errorf("memstore: read: %w", context.Cause(ctx))
	}
	find()
	return nil
}

// Wait implements [eventstore.Store].
func (s *Store) Wait(ctx context.Context, after consistency.Position) error {
	for {
		changed, err := s.arm(after)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arm returns what the next append closes, or nil where there is nothing to
// wait for.
func (s *Store) arm(after consistency.Position) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, eventstore.Closed()
	case s.index.n > s.index.upTo(after):
		return nil, nil
	case s.changed == nil:
		s.changed = make(chan struct{})
	}
	return s.changed, nil
}

// Close implements [eventstore.Store]. The log is gone for those who call later.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return nil
}
