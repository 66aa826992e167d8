package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/event"
)

// decision is what Decide said, ready to be saved.
type decision struct {
	status  Status // Committed, Nothing or Refused
	refusal error
	records []event.Record // the events, or one marker; none: nothing is to be saved
}

// refusalEvent is a refusal that is recorded.
type refusalEvent interface {
	error
	event.Event
}

func (c *call[S]) decide(state S) (decision, error) {
	events, err := c.cmd.Decide(state)
	for _, e := range events {
		if _, marker := e.(event.Marker); marker {
			return decision{}, fmt.Errorf("%w: Decide of %s returned an event.Marker: these are the runner's; return no events, or a refusal", ErrMisuse, c.name)
		}
	}
	switch {
	case err != nil && len(events) > 0:
		return decision{}, fmt.Errorf("%w: Decide of %s returned %d events together with the error %q: return one of both", ErrMisuse, c.name, len(events), err)
	case err != nil:
		d := decision{status: Refused, refusal: err}
		refusal, typed := errors.AsType[refusalEvent](err)
		if !typed {
			if c.record {
				return d, fmt.Errorf("%w: refusals of %s are recorded, so each must be an event type of its codec (a method EventType beside Error), not %T: %w", ErrMisuse, c.name, err, err)
			}
			return d, nil
		}
		d.records, err = c.encode(event.Marker{Refusal: refusal})
		return d, err
	case len(events) > 0:
		records, err := c.encode(events...)
		return decision{status: Committed, records: records}, err
	case c.record:
		records, err := c.encode(event.Marker{})
		return decision{status: Nothing, records: records}, err
	}
	return decision{status: Nothing}, nil
}

func (s *session) encode(events ...event.Event) ([]event.Record, error) {
	records := make([]event.Record, len(events))
	now := s.runner.now()
	for i, e := range events {
		data, version, err := s.encodeOne(e)
		if err != nil {
			return nil, fmt.Errorf("event %d of %s: %w", i, s.name, err)
		}
		records[i] = event.Record{ID: event.DerivedID(s.id, i), Type: e.EventType(), Data: data, Metadata: s.metadata, Time: now}
		records[i].Metadata.Version = version
		records[i].Metadata.Events = len(events)
	}
	return records, nil
}

// encodeOne uses the first codec of the command's contexts that knows e.
func (s *session) encodeOne(e event.Event) (json.RawMessage, int, error) {
	if e == nil {
		return nil, 0, fmt.Errorf("%w: Decide returned a nil event", ErrMisuse)
	}
	of := e
	if m, ok := e.(event.Marker); ok && m.Refusal != nil {
		of = m.Refusal
	}
	codecs := s.reading.codecs
	if len(codecs) == 0 {
		return nil, 0, fmt.Errorf("%w: no context names a codec: use Model.None for a command that depends on nothing", ErrMisuse)
	}
	codec := codecs[0]
	for _, c := range codecs {
		if c.Has(of) {
			codec = c
			break
		}
	}
	return codec.Encode(e, s.id)
}

// decode uses the first codec that knows the type of r.
func decode(codecs []*event.Codec, r event.Record) (e event.Event, err error) {
	if len(codecs) == 0 {
		codecs = []*event.Codec{event.NewCodec()}
	}
	for _, c := range codecs {
		if e, err = c.Decode(r); err == nil || !errors.Is(err, event.ErrUnknownType) {
			return e, err
		}
	}
	return e, err
}

// answer is what a decision leads to, first or replayed: made of the records
// as they are stored, so that both are the same.
func (c *call[S]) answer(d decision, state S, replayed bool) (Outcome[S], error) {
	out := Outcome[S]{Status: d.status, Replayed: replayed, State: state}
	if len(d.records) > 0 {
		out.Position = d.records[len(d.records)-1].Position
	}
	switch {
	case d.status == Committed:
		out.Events = d.records
	case len(d.records) > 0:
		refusal, err := c.recorded(d.records[0])
		if err != nil {
			return c.end(Unknown, fmt.Errorf("%w: what was recorded cannot be read: %w", ErrUnknown, err))
		}
		return out, refusal
	}
	return out, d.refusal
}

// recorded gives the refusal in a marker, nil for nothing to do.
func (s *session) recorded(r event.Record) (error, error) {
	e, err := decode(s.reading.codecs, r)
	if err != nil {
		return nil, err
	}
	marker, ok := e.(event.Marker)
	if !ok || marker.Refusal == nil {
		return nil, nil
	}
	if refusal, ok := marker.Refusal.(error); ok {
		return refusal, nil
	}
	return nil, fmt.Errorf("%w: the refusal %s is no error any more", ErrMisuse, marker.Refusal.EventType())
}

// ours leaves out what a foreign writer has put under the ID after our save.
func (s *session) ours(own []event.Record) []event.Record {
	n := 0
	for n < len(own) && own[n].ID == event.DerivedID(s.id, n) {
		n++
	}
	if n > 0 {
		return own[:n]
	}
	return own
}

// replay answers with what an earlier attempt or call has left in the log.
func (c *call[S]) replay(ctx, caller context.Context, own []event.Record) (Outcome[S], error, bool) {
	own = c.ours(own)
	first := own[0]
	if first.Metadata.Fingerprint != c.metadata.Fingerprint {
		out, err := c.end(Reused, fmt.Errorf("%w (it is a %q at %s)", ErrIDReused, first.Metadata.Command, first.Position))
		return out, err, true
	}
	if first.Metadata.Events != len(own) { // half of a save is no answer
		return c.again(ErrUnavailable, fmt.Errorf("the log shows %d of the %d events of the save at %s", len(own), first.Metadata.Events, first.Position))
	}
	state, err := c.stateAt(ctx, own)
	if errors.Is(err, errRetry) {
		return c.again(ErrUnavailable, err)
	}
	d := decision{status: Committed, records: own}
	if err == nil && first.Type == event.MarkerType {
		d.status = Nothing
		if d.refusal, err = c.recorded(first); d.refusal != nil {
			d.status = Refused
		}
	}
	if err != nil { // it is in the log, so "failed" would be false
		out, err := c.end(Unknown, fmt.Errorf("%w: it was committed at %s, but its answer cannot be rebuilt: %w", ErrUnknown, first.Position, err))
		return out, err, true
	}
	out, err := c.answer(d, state, true)
	return out, err, true
}
