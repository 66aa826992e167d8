package storetest

import (
	"encoding/json"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// model is a log as naive as can be: what the stores are compared with. It
// shares no code with them, nor with the matching of package consistency.
type model []event.Record

func (m model) matches(q consistency.Query) (found []event.Record) {
	for _, r := range m {
		if naive(q, r) {
			found = append(found, r)
		}
	}
	return found
}

func naive(q consistency.Query, r event.Record) bool {
	var data map[string]any
	for _, c := range q.Criteria() {
		if len(c.Tags) > 0 && data == nil && json.Unmarshal(r.Data, &data) != nil {
			return false
		}
		good := len(c.Types) == 0 || slices.Contains(c.Types, r.Type)
		for _, t := range c.Tags {
			value, isText := data[t.Key].(string)
			good = good && isText && value == t.Value
		}
		if good {
			return true
		}
	}
	return false
}

// last returns the position of the latest match at or before upTo (zero: the
// head).
func (m model) last(q consistency.Query, upTo consistency.Position) (p consistency.Position) {
	for _, r := range m.matches(q) {
		if upTo.IsZero() || !r.Position.After(upTo) {
			p = r.Position
		}
	}
	return p
}

func (m model) result(p eventstore.Part) (out eventstore.Result) {
	out.Last = m.last(p.Query, p.UpTo)
	for _, r := range m.matches(p.Query) {
		switch {
		case p.LatestOnly && r.Position != out.Last,
			!p.LatestOnly && !r.Position.After(p.After),
			!p.UpTo.IsZero() && r.Position.After(p.UpTo):
		default:
			out.Records = append(out.Records, r)
		}
	}
	return out
}

func (m model) holds(seen []consistency.Observation) bool {
	for _, o := range seen {
		if m.last(o.Query, consistency.Position{}) != o.At {
			return false
		}
	}
	return true
}

// fill appends the records one by one and returns the model of the log.
func (e *env) fill(s eventstore.Store, records ...event.Record) model {
	var m model
	for i := range records {
		one := records[i : i+1]
		m = append(m, placed(one, e.save(s, nil, one...))...)
	}
	return m
}
