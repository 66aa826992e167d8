package orisun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
	"github.com/google/uuid"
)

// timeKey is where the writer's time stands in the metadata: servers have one
// of their own only.
const timeKey = "ccc.time"

const timeForm = "2006-01-02T15:04:05.000000Z"

// toWire turns a position into the server's: there, {-1,-1} is before all.
func toWire(p consistency.Position) *wire.Position {
	if p.IsZero() {
		return &wire.Position{CommitPosition: -1, PreparePosition: -1}
	}
	major, minor := p.Parts()
	return &wire.Position{CommitPosition: int64(min(major, math.MaxInt64)), PreparePosition: int64(min(minor, math.MaxInt64))}
}

// afterWire is where a read begins that leaves out p itself: reads begin at a
// position inclusive. Nil: at the first event.
func afterWire(p consistency.Position) *wire.Position {
	if p.IsZero() {
		return nil
	}
	w := toWire(p)
	switch { // and no event is at the last position there can be
	case w.PreparePosition < math.MaxInt64:
		w.PreparePosition++
	case w.CommitPosition < math.MaxInt64:
		w.CommitPosition, w.PreparePosition = w.CommitPosition+1, 0
	}
	return w
}

func fromWire(p *wire.Position) (consistency.Position, error) {
	if p == nil || p.CommitPosition < 0 || p.PreparePosition < 0 || p.CommitPosition == 0 && p.PreparePosition == 0 {
		return consistency.Position{}, fmt.Errorf("the server gave an event the position %v, which is none", p)
	}
	return consistency.NewPosition(uint64(p.CommitPosition), uint64(p.PreparePosition)), nil
}

func toSave(r event.Record, now time.Time) (*wire.EventToSave, error) {
	if err := exactNumbers(r.Data); err != nil {
		return nil, err
	}
	at := r.Time
	if at.IsZero() {
		at = now
	}
	meta, err := json.Marshal(r.Metadata)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(meta[:len(meta)-1])
	if len(meta) > len("{}") {
		b.WriteByte(',')
	}
	fmt.Fprintf(&b, `"%s":"%s"}`, timeKey, at.UTC().Truncate(time.Microsecond).Format(timeForm))
	return &wire.EventToSave{EventId: r.ID.String(), EventType: r.Type, Data: string(r.Data), Metadata: b.String()}, nil
}

func (s *Store) toRecord(e *wire.Event) (event.Record, error) {
	r := event.Record{Type: e.GetEventType(), Data: withoutKey([]byte(e.GetData()), s.typeKey), Time: e.GetDateCreated().AsTime().UTC().Truncate(time.Microsecond)}
	var err error
	if r.Position, err = fromWire(e.GetPosition()); err != nil {
		return r, err
	}
	if r.ID, err = uuid.Parse(e.GetEventId()); err != nil {
		return r, fmt.Errorf("the event at %s has the event_id %.80q, which is no UUID: %w", r.Position, e.GetEventId(), err)
	}
	if e.GetMetadata() == "" {
		return r, nil
	}
	if err := r.Metadata.UnmarshalJSON([]byte(e.GetMetadata())); err != nil {
		return r, fmt.Errorf("the event at %s: %w", r.Position, err)
	}
	if text, ok := r.Metadata.Custom[timeKey]; ok {
		delete(r.Metadata.Custom, timeKey)
		if len(r.Metadata.Custom) == 0 {
			r.Metadata.Custom = nil
		}
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			r.Time = at.UTC().Truncate(time.Microsecond)
		}
	}
	return r, nil
}

// withoutKey cuts out a member of an object: 0.10 writes the type into the data
// and leaves it there in what it answers.
func withoutKey(data []byte, key string) json.RawMessage {
	if !bytes.Contains(data, []byte(key)) {
		return data
	}
	if rest := withoutPlain(data, `"`+key+`"`); rest != nil {
		return rest
	}
	d := json.NewDecoder(bytes.NewReader(data))
	token, err := d.Token() // {
	for err == nil {
		before := d.InputOffset()
		var value json.RawMessage
		if token, err = d.Token(); err != nil || token == json.Delim('}') {
			break
		}
		if err = d.Decode(&value); err != nil || token != key {
			continue
		}
		rest := data[d.InputOffset():]
		if data[before-1] == '{' {
			rest = bytes.TrimPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte{','})
		}
		return slices.Concat(data[:before], rest)
	}
	return data
}

// withoutPlain is withoutKey for a key that stands once, before anything nested,
// and whose value is a text without escapes; nil where it is otherwise.
func withoutPlain(data []byte, key string) []byte {
	before, rest, found := bytes.Cut(data, []byte(key))
	if !found || len(before) == 0 || before[0] != '{' || bytes.ContainsAny(before[1:], `[{\`) || bytes.Contains(rest, []byte(key)) {
		return nil
	}
	rest, isKey := bytes.CutPrefix(rest, []byte(":"))
	rest, isText := bytes.CutPrefix(bytes.TrimPrefix(rest, []byte(" ")), []byte(`"`))
	value, rest, ended := bytes.Cut(rest, []byte(`"`))
	if !isKey || !isText || !ended || bytes.IndexByte(value, '\\') >= 0 {
		return nil
	}
	before = bytes.TrimRight(before, " ")
	if len(before) == 1 {
		rest = bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(rest, " "), []byte(",")), " ")
	} else {
		before = bytes.TrimSuffix(before, []byte(","))
	}
	return slices.Concat(before, rest)
}

// exactNumbers refuses numbers that a server would give back as others: 0.10
// passes them through float64. Later ones do not, but a log outlives a server.
func exactNumbers(data []byte) error {
	if !bytes.ContainsAny(data, "0123456789") {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return nil // the end: that it is JSON was checked before
		}
		n, ok := token.(json.Number)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil || !sameDecimal(string(n), strconv.FormatFloat(f, 'e', -1, 64)) {
			return fmt.Errorf("number %.80s has more digits than servers keep (they use float64): store it as a string, in Go with the option \",string\"", n)
		}
	}
}

func sameDecimal(a, b string) bool {
	digitsA, expA := decimal(a)
	digitsB, expB := decimal(b)
	return digitsA == digitsB && expA == expB
}

// decimal returns the digits of a number without zeros at their ends, and the
// power of ten of the last one.
func decimal(text string) (digits string, exp int) {
	text, power, _ := strings.Cut(strings.ToLower(strings.TrimLeft(text, "-+")), "e")
	exp, _ = strconv.Atoi(power) // out of range: clamped, and no float64 is near
	whole, fraction, _ := strings.Cut(text, ".")
	exp -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	if trimmed == "" {
		exp = 0
	}
	return trimmed, exp
}
