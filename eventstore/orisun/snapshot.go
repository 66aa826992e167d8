package orisun

import (
	"context"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
)

// How many events a request asks for.
const (
	countHistory = 1000 // whole histories
	countRecent  = 100  // what is new since a position
	countMost    = 10_000
)

// Snapshot implements [eventstore.Store]. It reads newest first, as the server
// checks saves: the first answer fixes the moment, since what lies at or before
// an event never changes. One round trip where the histories are short, one
// more for each thousand events. Parts that ask for a latest match come from
// one GetLatestByCriteria.
func (s *Store) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	if err := eventstore.CheckParts(parts...); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	ctx, cancel := s.bound(ctx)
	defer cancel()
	walks, err := s.walk(ctx, parts)
	if err != nil {
		return nil, err
	}
	results := make([]eventstore.Result, len(parts))
	seen := make([]consistency.Observation, len(parts))
	now := true
	for i, w := range walks {
		slices.Reverse(w.Records)
		results[i] = w.Result
		seen[i] = consistency.Observation{Query: w.Query, At: w.Last}
		now = now && w.UpTo.IsZero()
	}
	if now {
		s.moments.add(seen)
	}
	return results, nil
}

// walk is one part on its way down the log.
type walk struct {
	eventstore.Part
	eventstore.Result // newest first
	criteria          []consistency.Criterion
	done              bool
}

// small says whether a query can meet few events only: those of a command.
func small(q consistency.Query) bool {
	for _, c := range q.Criteria() {
		if !slices.ContainsFunc(c.Tags, func(t consistency.Tag) bool { return t.Key == consistency.CommandKey }) {
			return false
		}
	}
	return true
}

func (s *Store) walk(ctx context.Context, parts []eventstore.Part) ([]*walk, error) {
	walks := make([]*walk, len(parts))
	queries := make([]consistency.Query, len(parts))
	byLatest, begin := false, consistency.Position{}
	open := len(parts) == 0 // a part goes up to the head
	canLatest := true
	for i, p := range parts {
		walks[i], queries[i] = &walk{Part: p, criteria: p.Query.Criteria()}, p.Query
		byLatest = byLatest || p.LatestOnly && !small(p.Query)
		canLatest = canLatest && p.UpTo.IsZero() && !isAll(p.Query)
		open = open || p.UpTo.IsZero()
		if p.UpTo.After(begin) {
			begin = p.UpTo
		}
	}
	if open {
		begin = consistency.Position{}
	}
	if byLatest && canLatest {
		latest, head, err := s.latest(ctx, queries)
		if err != nil || head.IsZero() {
			return walks, err
		}
		begin = head
		for i, w := range walks {
			w.Last = latest[i].Position
			if w.done = w.LatestOnly || !w.Last.After(w.After); w.LatestOnly && !w.Last.IsZero() {
				w.Records = latest[i : i+1 : i+1]
			}
		}
	}
	return walks, s.down(ctx, walks, begin)
}

// down reads newest first, from a position (zero: the head), until all walks
// are done.
func (s *Store) down(ctx context.Context, walks []*walk, begin consistency.Position) error {
	var from *wire.Position
	if !begin.IsZero() {
		from = toWire(begin)
	}
	for grow := 1; ; grow = min(grow*2, 8) {
		var open []*walk
		var queries []consistency.Query
		count := uint32(countRecent)
		for _, w := range walks {
			if w.done {
				continue
			}
			open, queries = append(open, w), append(queries, w.Query)
			if w.After.IsZero() && !w.LatestOnly && !small(w.Query) {
				count = countHistory
			}
		}
		if len(open) == 0 {
			return nil
		}
		if len(open) == 1 && open[0].LatestOnly {
			count = 1
		}
		query, err := s.join(queries)
		if err != nil {
			return err
		}
		request := &wire.GetEventsRequest{Query: query, FromPosition: from, Count: min(count*uint32(grow), countMost), Direction: wire.Direction_DESC}
		events, short, err := s.getUpTo(ctx, request)
		if err != nil {
			return err
		}
		var last consistency.Position
		for _, e := range events {
			r, err := s.toRecord(e)
			if err != nil {
				return s.failure(ctx, eventstore.Permanent, "GetEvents", err)
			}
			if last = r.Position; !offer(open, r) && query != nil {
				return s.foreign(ctx, r, joinedQuery(queries))
			}
		}
		if short {
			return nil
		}
		for _, w := range open {
			w.done = w.done || !w.Last.IsZero() && !last.After(w.After)
		}
		from = toWire(last.Prev())
	}
}

// offer shows an event to the walks and says whether any of them asked for it.
func offer(walks []*walk, r event.Record) (met bool) {
	tags, _ := consistency.Tags(r.Data)
	for _, w := range walks {
		if slices.ContainsFunc(w.criteria, func(c consistency.Criterion) bool { return c.Matches(r.Type, tags) }) {
			met = true
			w.take(r)
		}
	}
	return met
}

func (w *walk) take(r event.Record) {
	if w.done || !w.UpTo.IsZero() && r.Position.After(w.UpTo) {
		return
	}
	if w.Last.IsZero() {
		w.Last = r.Position
	}
	switch {
	case w.LatestOnly:
		w.Records, w.done = []event.Record{r}, true
	case r.Position.After(w.After):
		w.Records = append(w.Records, r)
	default:
		w.done = true
	}
}

func joinedQuery(queries []consistency.Query) consistency.Query {
	var q consistency.Query
	for _, other := range queries {
		q = q.Or(other)
	}
	return q
}
