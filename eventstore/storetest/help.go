package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

var everything = consistency.All()

// fact makes a record of type T whose data has the given keys and values.
func fact(keysAndValues ...string) event.Record { return typed("T", keysAndValues...) }

func typed(eventType string, keysAndValues ...string) event.Record {
	data := []byte{'{'}
	for i, text := range keysAndValues {
		if i > 0 {
			data = append(data, ",:"[i%2])
		}
		quoted, _ := json.Marshal(text)
		data = append(data, quoted...)
	}
	return raw(eventType, string(append(data, '}')))
}

func raw(eventType, data string) event.Record {
	return event.Record{ID: uuid.New(), Type: eventType, Data: json.RawMessage(data)}
}

func where(key, value string) consistency.Query { return consistency.Where(key, value) }

func at(q consistency.Query, p consistency.Position) consistency.Observation {
	return consistency.Observation{Query: q, At: p}
}

func seen(o ...consistency.Observation) []consistency.Observation { return o }

// save appends what must be saved, and looks at the receipt.
func (e *env) save(s eventstore.Store, seen []consistency.Observation, records ...event.Record) []consistency.Position {
	seen = e.observable(s, seen, records)
	receipt, err := s.Append(e.ctx, records, seen)
	if err != nil {
		e.failf("append of %d events with %s: saved expected, got %w", len(records), observed(seen), err)
	}
	e.receipt(records, receipt)
	return receipt.Positions
}

func (e *env) receipt(records []event.Record, r eventstore.Receipt) {
	if len(r.Positions) != len(records) {
		e.failf("the receipt of %d events has %d positions", len(records), len(r.Positions))
	}
	for i, p := range r.Positions {
		if p.IsZero() || i > 0 && !p.After(r.Positions[i-1]) {
			e.failf("positions in a receipt must be above zero and ascend: %v", r.Positions)
		}
	}
}

// observable leaves out the observations that the store has to refuse, and sees
// it refuse them.
func (e *env) observable(s eventstore.Store, seen []consistency.Observation, records []event.Record) []consistency.Observation {
	if !e.tooWide(seen) {
		return seen
	}
	e.refuse(s, eventstore.Permanent, seen, records, eventstore.ErrInvalid)
	return slices.DeleteFunc(slices.Clone(seen), isWide)
}

func (e *env) tooWide(seen []consistency.Observation) bool {
	return e.f.NamedTypesOnly && slices.ContainsFunc(seen, isWide)
}

func isWide(o consistency.Observation) bool {
	return slices.ContainsFunc(o.Query.Criteria(), func(c consistency.Criterion) bool { return len(c.Types)+len(c.Tags) == 0 })
}

func observed(seen []consistency.Observation) string {
	if len(seen) == 0 {
		return "no observation"
	}
	texts := make([]string, len(seen))
	for i, o := range seen {
		texts[i] = fmt.Sprintf("%s at %s", o.Query, o.At)
	}
	return "observation " + strings.Join(texts, ", ")
}

// refuse appends what must be refused with this kind, and with these errors.
func (e *env) refuse(s eventstore.Store, kind eventstore.Kind, seen []consistency.Observation, records []event.Record, is ...error) {
	if e.tooWide(seen) {
		kind, is = eventstore.Permanent, []error{eventstore.ErrInvalid}
	}
	receipt, err := s.Append(e.ctx, records, seen)
	if err == nil {
		e.failf("append of %d events with %s: %s expected, it was saved at %v", len(records), observed(seen), name(kind), receipt.Positions)
	}
	e.isKind(err, kind, is...)
}

func (e *env) isKind(err error, kind eventstore.Kind, is ...error) {
	if _, has := errors.AsType[eventstore.Kind](err); !has {
		e.failf("%s expected, got an error without a kind: %w", name(kind), err)
	}
	if got := eventstore.KindOf(err); got != kind {
		e.failf("%s expected, got %s: %w", name(kind), name(got), err)
	}
	for _, target := range is {
		if !errors.Is(err, target) {
			e.failf("an error that is %q expected, got: %w", target, err)
		}
	}
}

func name(k eventstore.Kind) string {
	return map[eventstore.Kind]string{eventstore.Conflict: "Conflict", eventstore.NotApplied: "NotApplied",
		eventstore.Ambiguous: "Ambiguous", eventstore.Permanent: "Permanent"}[k]
}

func (e *env) snapshot(s eventstore.Store, parts ...eventstore.Part) []eventstore.Result {
	results, err := s.Snapshot(e.ctx, parts...)
	e.need(err, "snapshot")
	if len(results) != len(parts) {
		e.failf("snapshot of %d parts gave %d results", len(parts), len(results))
	}
	return results
}

// history reads all matches of q.
func (e *env) history(s eventstore.Store, q consistency.Query) []event.Record {
	return e.snapshot(s, eventstore.Part{Query: q})[0].Records
}

// last reads the position of the latest match of q.
func (e *env) last(s eventstore.Store, q consistency.Query) consistency.Position {
	return e.snapshot(s, eventstore.Part{Query: q, LatestOnly: true})[0].Last
}

// holds fails unless the log holds these records, in this order, and no other.
func (e *env) holds(s eventstore.Store, want ...event.Record) {
	e.same(want, e.history(s, everything), "the log")
}

// same compares what was appended with what was read.
func (e *env) same(want, got []event.Record, what string, args ...any) {
	what = fmt.Sprintf(what, args...)
	for i := range min(len(want), len(got)) {
		if err := e.differ(want[i], got[i]); err != nil {
			e.failf("%s: event %d: %w", what, i, err)
		}
	}
	if len(want) != len(got) {
		e.failf("%s: %d events expected, got %d", what, len(want), len(got))
	}
}

func (e *env) differ(want, got event.Record) error {
	switch {
	case want.ID != got.ID:
		return fmt.Errorf("event_id %s expected, got %s (data %.80s and %.80s)", want.ID, got.ID, want.Data, got.Data)
	case want.Type != got.Type:
		return fmt.Errorf("type %q was stored, got %q", want.Type, got.Type)
	case !e.sameJSON(want.Data, got.Data):
		return fmt.Errorf("data %.300s was stored, got %.300s", want.Data, got.Data)
	case !sameMetadata(want.Metadata, got.Metadata):
		return fmt.Errorf("metadata %.300s was stored, got %.300s", fmt.Sprintf("%+v", want.Metadata), fmt.Sprintf("%+v", got.Metadata))
	case got.Position.IsZero():
		return errors.New("it was read without a position")
	case !want.Position.IsZero() && want.Position != got.Position:
		return fmt.Errorf("position %s expected, got %s", want.Position, got.Position)
	case got.Time.IsZero() || got.Time.Location() != time.UTC || got.Time.Nanosecond()%1000 != 0:
		return fmt.Errorf("a time in UTC and whole microseconds expected, got %v", got.Time)
	case !want.Time.IsZero() && !got.Time.Equal(want.Time.Truncate(time.Microsecond)):
		return fmt.Errorf("time %v was stored, got %v", want.Time, got.Time)
	}
	return nil
}

func sameMetadata(a, b event.Metadata) bool {
	custom := maps.Equal(a.Custom, b.Custom)
	a.Custom, b.Custom = nil, nil
	return custom && reflect.DeepEqual(a, b)
}

// sameJSON compares by value: spaces and the order of keys are the store's.
func (e *env) sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	if decode(a, &x) != nil || decode(b, &y) != nil {
		return false
	}
	return e.sameValue(x, y)
}

func decode(data json.RawMessage, into any) error {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	return d.Decode(into)
}

func (e *env) sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, e.sameValue)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !e.sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && e.sameNumber(a, b)
	}
	return a == b
}

func (e *env) sameNumber(a, b json.Number) bool {
	if e.f.FloatNumbers {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return x == y
	}
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	return okX && okY && x.Cmp(y) == 0
}

// placed returns records with the positions of their receipt.
func placed(records []event.Record, positions []consistency.Position) []event.Record {
	out := make([]event.Record, len(records))
	for i, r := range records {
		r.Position = positions[i]
		out[i] = r
	}
	return out
}
