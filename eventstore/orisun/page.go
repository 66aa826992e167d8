package orisun

import (
	"context"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/google/uuid"
)

// Page implements [eventstore.Store]. It reads oldest first, which on
// PostgreSQL servers may lag behind commits but skips nothing; UpTo is never
// beyond what such a read has shown. A full page is one round trip, one that
// ends at the head of the log up to four.
func (s *Store) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	if err := eventstore.CheckParts(eventstore.Part{Query: q}); err != nil {
		return eventstore.Page{}, err
	}
	if limit < 1 {
		limit = countHistory
	}
	if err := s.begin(); err != nil {
		return eventstore.Page{}, err
	}
	defer s.calls.Done()
	ctx, cancel := s.bound(ctx)
	defer cancel()
	p := pager{s: s, ctx: ctx, q: q, after: after, limit: min(limit, countMost)}
	if err := p.read(); err != nil {
		return eventstore.Page{}, err
	}
	return p.page, nil
}

type pager struct {
	s     *Store
	ctx   context.Context
	q     consistency.Query
	after consistency.Position
	limit int

	page eventstore.Page
	end  consistency.Position // of what was read
}

func (p *pager) read() error {
	p.end = p.after
	more, err := p.more()
	if err != nil || more {
		return err
	}
	if isAll(p.q) && len(p.page.Records) > 0 {
		return nil
	}
	// No more matches; the log may go on.
	head, err := p.one(wire.Direction_DESC, nil)
	if err != nil || head.Position.IsZero() {
		return err
	}
	if head.Position.After(p.end) {
		shown, err := p.one(wire.Direction_ASC, toWire(head.Position))
		if err != nil {
			return err
		}
		if shown.Position == head.Position {
			// All up to there is shown by now: the matches too.
			more, err := p.more()
			if err != nil || more {
				return err
			}
			p.upTo(head)
			return nil
		}
		if err := p.window(); err != nil || p.end.After(p.after) || p.after.IsZero() {
			return err
		}
		if head, err = p.one(wire.Direction_DESC, toWire(p.after)); err != nil {
			return err
		}
	}
	p.upTo(head)
	return nil
}

func (p *pager) upTo(r event.Record) {
	if r.Position.After(p.page.UpTo) {
		p.page.UpTo, p.page.UpToID = r.Position, r.ID
	}
}

// more reads the next matches, until there are no more (false) or the page is
// full.
func (p *pager) more() (full bool, err error) {
	query, err := p.s.join([]consistency.Query{p.q})
	if err != nil {
		return false, err
	}
	return p.take(query, p.limit-len(p.page.Records))
}

// window takes what lies next in the log, matches or not, where the head is not
// shown yet.
func (p *pager) window() error {
	_, err := p.take(nil, p.limit-len(p.page.Records))
	return err
}

func (p *pager) take(query *wire.Query, count int) (full bool, err error) {
	request := &wire.GetEventsRequest{Query: query, FromPosition: afterWire(p.end), Count: uint32(count)}
	events, short, err := p.s.getUpTo(p.ctx, request)
	if err != nil {
		return false, err
	}
	for _, e := range events {
		r, err := p.s.toRecord(e)
		if err != nil {
			return false, p.s.failure(p.ctx, eventstore.Permanent, "GetEvents", err)
		}
		p.end = r.Position
		p.upTo(r)
		if p.q.Matches(r.Type, r.Data) { // what the server alone calls a match is none
			p.page.Records = append(p.page.Records, r)
		}
	}
	return !short, nil
}

// one reads the event at an end of the log, or from a position; zero where
// there is none.
func (p *pager) one(d wire.Direction, from *wire.Position) (r event.Record, err error) {
	events, err := p.s.get(p.ctx, &wire.GetEventsRequest{FromPosition: from, Count: 1, Direction: d})
	if err != nil || len(events) == 0 {
		return r, err
	}
	if r.Position, err = fromWire(events[0].GetPosition()); err == nil {
		r.ID, err = uuid.Parse(events[0].GetEventId())
	}
	if err != nil {
		err = p.s.failure(p.ctx, eventstore.Permanent, "GetEvents", err)
	}
	return r, err
}
