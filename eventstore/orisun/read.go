package orisun

import (
	"context"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/cenkalti/backoff/v4"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// get is one GetEvents: one snapshot of the log. Where the answer would be too
// large it asks for less, so fewer events than asked for may mean that: short
// says that there are no more.
func (s *Store) get(ctx context.Context, request *wire.GetEventsRequest) ([]*wire.Event, error) {
	events, _, err := s.getUpTo(ctx, request)
	return events, err
}

func (s *Store) getUpTo(ctx context.Context, request *wire.GetEventsRequest) (events []*wire.Event, short bool, err error) {
	request.Boundary = s.cfg.Boundary
	pause := retryInactive()
	for {
		response, err := s.client.GetEvents(ctx, request)
		switch {
		case err == nil:
			events := response.GetEvents()
			return events, len(events) < int(request.Count), nil
		case status.Code(err) == codes.ResourceExhausted && request.Count > 1:
			request.Count = (request.Count + 1) / 2
		case refused(err) == eventstore.NotApplied && pause(ctx):
		default:
			return nil, false, s.readError(ctx, "GetEvents", err)
		}
	}
}

// latest finds the latest match of each query, all as of one moment, and the
// latest of them all. No query may be All.
func (s *Store) latest(ctx context.Context, queries []consistency.Query) ([]event.Record, consistency.Position, error) {
	var head consistency.Position
	joined, err := s.join(queries)
	if err != nil {
		return nil, head, err
	}
	request := &wire.GetLatestByCriteriaRequest{Boundary: s.cfg.Boundary, Criteria: joined.Criteria}
	pause := retryInactive()
	response, err := s.client.GetLatestByCriteria(ctx, request)
	for err != nil && refused(err) == eventstore.NotApplied && pause(ctx) {
		response, err = s.client.GetLatestByCriteria(ctx, request)
	}
	if err != nil {
		return nil, head, s.readError(ctx, "GetLatestByCriteria", err)
	}
	results := response.GetResults()
	if len(results) != len(joined.Criteria) {
		return nil, head, s.failure(ctx, eventstore.Permanent, "GetLatestByCriteria", fmt.Errorf("%d results for %d criteria", len(results), len(joined.Criteria)))
	}
	out := make([]event.Record, len(queries))
	for i, q := range queries {
		n := len(s.criteria(q))
		for _, result := range results[:n] {
			if result.GetEvent() == nil {
				continue
			}
			r, err := s.toRecord(result.Event)
			if err != nil {
				return nil, head, s.failure(ctx, eventstore.Permanent, "GetLatestByCriteria", err)
			}
			if !q.Matches(r.Type, r.Data) {
				return nil, head, s.foreign(ctx, r, q)
			}
			if r.Position.After(out[i].Position) {
				out[i] = r
			}
		}
		results = results[n:]
		if out[i].Position.After(head) {
			head = out[i].Position
		}
	}
	return out, head, nil
}

func (s *Store) foreign(ctx context.Context, r event.Record, q fmt.Stringer) error {
	return s.failure(ctx, eventstore.Permanent, "read", fmt.Errorf("%w: event %s of type %q at %s, asked for %s", ErrForeignMatch, r.ID, r.Type, r.Position, q))
}

// How long a boundary may say that it is not active: it takes a moment to start.
const activeWithin = 5 * time.Second

// retryInactive returns a pause before each new try, false when it is time to
// give up.
func retryInactive() (pause func(context.Context) bool) {
	intervals := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(500*time.Millisecond), backoff.WithMaxElapsedTime(activeWithin))
	return func(ctx context.Context) bool {
		d := intervals.NextBackOff()
		if d == backoff.Stop {
			return false
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
