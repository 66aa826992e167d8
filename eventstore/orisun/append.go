package orisun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Append implements [eventstore.Store]. On servers from 0.11 on it is one round
// trip. On 0.10, which takes one query only, several observations take a second
// one before it, unless a Snapshot of this Store saw them together.
//
// Beyond what all stores refuse, it refuses numbers in data that do not
// survive float64, observations of every event (name types instead), and
// appends over 64 MiB.
func (s *Store) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	if _, err := eventstore.CheckAppend(records, seen); err != nil {
		return eventstore.Receipt{}, err
	}
	events := make([]*wire.EventToSave, len(records))
	now := time.Now()
	for i, r := range records {
		var err error
		if events[i], err = toSave(r, now); err != nil {
			return eventstore.Receipt{}, invalid("event %d (%s, type %.80q): %w", i, r.ID, r.Type, err)
		}
	}
	seen, err := distinct(seen)
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
	ctx, cancel := s.bound(ctx)
	defer cancel()
	last, err := s.save(ctx, events, seen)
	if err != nil {
		return eventstore.Receipt{}, err
	}
	s.waiters.kickOff()
	return receipt(last, len(records)), nil
}

// distinct leaves out observations that stand twice. One query at two positions
// holds never.
func distinct(seen []consistency.Observation) ([]consistency.Observation, error) {
	at := make(map[string]consistency.Position, len(seen))
	out := make([]consistency.Observation, 0, len(seen))
	for _, o := range seen {
		if isAll(o.Query) {
			return nil, invalid("observation of every event: servers cannot be asked that: name the types (Query.Type)")
		}
		text := o.Query.String()
		switch was, ok := at[text]; {
		case !ok:
			at[text] = o.At
			out = append(out, o)
		case was != o.At:
			return nil, fmt.Errorf("orisun: %w: %s was observed at %s and at %s", eventstore.Conflict, text, was, o.At)
		}
	}
	return out, nil
}

// receipt counts back from the last event: a batch is contiguous (seen on 0.10
// in 40 306 of 40 306 events, shared/reference/orisun.md).
func receipt(last consistency.Position, n int) eventstore.Receipt {
	positions := make([]consistency.Position, n)
	major, minor := last.Parts()
	for i := range positions {
		positions[i] = consistency.NewPosition(major, minor-uint64(n-1-i))
	}
	return eventstore.Receipt{Positions: positions}
}

func (s *Store) save(ctx context.Context, events []*wire.EventToSave, seen []consistency.Observation) (consistency.Position, error) {
	if s.v2 {
		request := &wire.SaveEventsV2Request{Boundary: s.cfg.Boundary, Events: events}
		for _, o := range seen {
			request.Consistency = append(request.Consistency, &wire.ConsistencyObservation{
				Query: &wire.Query{Criteria: s.criteria(o.Query)}, Position: toWire(o.At)})
		}
		return s.send(ctx, request, len(events), func(ctx context.Context) (*wire.WriteResult, error) { return s.client.SaveEventsV2(ctx, request) })
	}
	request := &wire.SaveEventsRequest{Boundary: s.cfg.Boundary, Events: events}
	if len(seen) > 0 {
		query, at, err := s.oneQuery(ctx, seen)
		if err != nil {
			return consistency.Position{}, err
		}
		request.Query = &wire.SaveQuery{SubsetQuery: query, ExpectedPosition: toWire(at)}
	}
	return s.send(ctx, request, len(events), func(ctx context.Context) (*wire.WriteResult, error) { return s.client.SaveEvents(ctx, request) })
}

// oneQuery makes one query and one position of several observations. The latest
// match of all is then the latest of the positions, and a new match of any of
// them lies after it. That says the same as the observations only where they
// held at one moment: elsewhere one of them could be outdated by an event at or
// before the latest of the others.
func (s *Store) oneQuery(ctx context.Context, seen []consistency.Observation) (*wire.Query, consistency.Position, error) {
	var latest consistency.Position
	queries := make([]consistency.Query, len(seen))
	for i, o := range seen {
		queries[i] = o.Query
		if o.At.After(latest) {
			latest = o.At
		}
	}
	query, err := s.join(queries)
	if err != nil {
		return nil, latest, err
	}
	if len(seen) == 1 || s.moments.known(seen) {
		return query, latest, nil
	}
	last, _, err := s.latest(ctx, queries)
	if err != nil {
		return nil, latest, err
	}
	for i, o := range seen {
		if last[i].Position != o.At {
			return nil, latest, fmt.Errorf("orisun: %w: the latest match of %s is at %s, it was observed at %s", eventstore.Conflict, o.Query, last[i].Position, o.At)
		}
	}
	return query, latest, nil
}

func (s *Store) send(ctx context.Context, request proto.Message, events int, call func(context.Context) (*wire.WriteResult, error)) (consistency.Position, error) {
	if size := proto.Size(request); size > maxMessage {
		return consistency.Position{}, invalid("an append of %d bytes, servers take %d: split the command", size, maxMessage)
	}
	pause := retryInactive()
	for {
		watched, sent := watchSent(ctx)
		result, err := call(watched)
		switch {
		case err == nil:
			last, err := fromWire(result.GetLogPosition())
			if _, minor := last.Parts(); err == nil && minor < uint64(events-1) {
				err = errors.New("the answer's position leaves no room for the events before it")
			}
			if err != nil {
				return last, fmt.Errorf("orisun: boundary %s: %w: save: %w", s.cfg.Boundary, eventstore.Ambiguous, err)
			}
			return last, nil
		case status.Code(err) == codes.FailedPrecondition && refused(err) == eventstore.NotApplied:
			if !pause(ctx) { // it stays so: there is no such boundary
				return consistency.Position{}, s.failure(ctx, eventstore.Permanent, "save", err)
			}
		default:
			return consistency.Position{}, s.saveError(ctx, sent.Load(), err)
		}
	}
}
