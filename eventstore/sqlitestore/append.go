package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// pending is an append on its way through the writer. All that can be made
// ready before is: the writer is what limits how many there are in a second.
type pending struct {
	store  *Store
	events []newEvent
	checks []check
	size   int

	// The writer's answer, readable once done is closed. The positions are
	// first and the ones right after it: one transaction counts without gaps.
	done  chan struct{}
	first int64
	err   error
}

type newEvent struct {
	id        uuid.UUID
	idHash    int64
	eventType string
	data      []byte
	metadata  []byte
	time      int64
	lookups   []int64
}

// check is an observation.
type check struct {
	query query
	at    int64
}

// Append implements [eventstore.Store]. When ctx ends while the append waits
// for its turn, it is taken back and is [eventstore.NotApplied]; when it ends
// later, the answer is [eventstore.Ambiguous] at once, and the append may land.
func (s *Store) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	tags, err := eventstore.CheckAppend(records, seen)
	if err != nil {
		return eventstore.Receipt{}, err
	}
	if err := s.begin(); err != nil {
		return eventstore.Receipt{}, err
	}
	defer s.calls.Done()
	if ctx.Err() != nil {
		return eventstore.Receipt{}, eventstore.NotStarted(ctx)
	}
	p, err := s.prepare(records, tags, seen)
	if err != nil {
		return eventstore.Receipt{}, err
	}
	s.file.queue.put(p)
	select {
	case <-p.done:
	case <-ctx.Done():
		if s.file.queue.takeBack(p) {
			return eventstore.Receipt{}, eventstore.NotStarted(ctx)
		}
		select {
		case <-p.done:
		default:
			return eventstore.Receipt{}, fmt.Errorf("sqlitestore: %w: append: its transaction had begun: %w", eventstore.Ambiguous, context.Cause(ctx))
		}
	}
	if p.err != nil {
		return eventstore.Receipt{}, s.explain(p, seen)
	}
	receipt := eventstore.Receipt{Positions: make([]consistency.Position, len(records))}
	for i := range receipt.Positions {
		receipt.Positions[i] = position(p.first + int64(i))
	}
	return receipt, nil
}

// prepare copies what is to be stored: the writer may read it after the caller
// has gone.
func (s *Store) prepare(records []event.Record, tags [][]consistency.Tag, seen []consistency.Observation) (*pending, error) {
	p := &pending{store: s, done: make(chan struct{}), events: make([]newEvent, len(records)), checks: make([]check, len(seen))}
	for i := range records {
		p.size += len(records[i].Data)
	}
	data := make([]byte, 0, p.size)
	now := time.Now()
	for i := range records {
		r := &records[i]
		metadata, err := marshal(&r.Metadata)
		if err != nil {
			return nil, fmt.Errorf("sqlitestore: %w: event %d: %w: %w", eventstore.Permanent, i, eventstore.ErrInvalid, err)
		}
		at := r.Time
		if at.IsZero() {
			at = now
		}
		data = append(data, r.Data...)
		p.events[i] = newEvent{
			id: r.ID, idHash: hashID(s.boundary.id, r.ID), eventType: r.Type,
			data: data[len(data)-len(r.Data) : len(data) : len(data)], metadata: metadata, time: at.UnixMicro(),
			lookups: hashes(s.boundary.id, r.ID, r.Type, tags[i]),
		}
		p.size += len(metadata)
	}
	for i, o := range seen {
		p.checks[i] = check{compile(s.boundary.id, o.Query), place(o.At)}
	}
	return p, nil
}

var noMetadata = []byte("{}")

func marshal(m *event.Metadata) ([]byte, error) {
	if m.Custom == nil && m.Command+m.Fingerprint+m.Correlation+m.Causation == "" && m.Events+m.Version+m.Depth == 0 {
		return noMetadata, nil
	}
	return json.Marshal(m)
}

// broken and duplicate are the writer's answers, put into words by the caller's
// goroutine.
type broken struct {
	check int
	found int64 // the latest match; 0 for none after the observed position
}

type duplicate struct{ event int }

func (broken) Error() string    { return "an observation does not hold" }
func (duplicate) Error() string { return "an event_id is stored already" }

func (s *Store) explain(p *pending, seen []consistency.Observation) error {
	switch err := p.err.(type) {
	case broken:
		o, found := seen[err.check], "no later match, and none there"
		if err.found != 0 {
			found = "a later match at " + position(err.found).String()
		}
		return fmt.Errorf("sqlitestore: %w: observation %d (%.300s at %s): there is %s", eventstore.Conflict, err.check, o.Query.String(), o.At, found)
	case duplicate:
		return fmt.Errorf("sqlitestore: %w: event %d: %w: %s", eventstore.Permanent, err.event, eventstore.ErrDuplicateEvent, p.events[err.event].id)
	}
	return p.err
}

// Bounds of what is committed together.
const (
	groupAppends = 512
	groupBytes   = 16 << 20
)

// queue holds the appends that wait for the writer.
type queue struct {
	mu    sync.Mutex
	items []*pending
	most  int           // appends in a group
	bell  chan struct{} // one ring is kept
}

func (q *queue) init() {
	q.most = groupAppends
	q.bell = make(chan struct{}, 1)
}

func (q *queue) wake() {
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

func (q *queue) put(p *pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, p)
	if len(q.items) == 1 {
		q.wake()
	}
}

// takeBack removes an append that the writer has not begun with.
func (q *queue) takeBack(p *pending) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, have := range q.items {
		if have == p {
			q.items = append(q.items[:i], q.items[i+1:]...)
			return true
		}
	}
	return false
}

func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) == 0
}

// take removes the appends of the next group. Afterwards they count as begun.
func (q *queue) take(into []*pending) []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	size, n := 0, 0
	for n < len(q.items) && n < q.most && (n == 0 || size+q.items[n].size <= groupBytes) {
		size += q.items[n].size
		n++
	}
	into = append(into, q.items[:n]...)
	rest := copy(q.items, q.items[n:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	return into
}

// drop answers the appends that wait, of one store or of all, with err.
func (q *queue) drop(s *Store, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rest := q.items[:0]
	for _, p := range q.items {
		if s != nil && p.store != s {
			rest = append(rest, p)
			continue
		}
		p.err = err
		close(p.done)
	}
	clear(q.items[len(rest):])
	q.items = rest
}
