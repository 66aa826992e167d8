package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// Codec turns domain events into stored ones and back. It is made once, before
// the first event, and may be used by any number of goroutines at once.
type Codec struct {
	byName map[string]*kind // under every name
	byType map[reflect.Type]*kind
	kinds  []*kind
	names  []string
	keys   keyIndex
}

// Types returns every name that this codec decodes, sorted: old names too, the
// framework's own markers not.
func (c *Codec) Types() []string { return slices.Clone(c.names) }

// Keys returns the top-level keys whose values may be strings, so that queries
// can ask for them, of every version of every type, sorted: what a store may
// need indexes for. A type whose keys are not known (one with a MarshalJSON of
// its own, or a map) adds none.
func (c *Codec) Keys() []string {
	var keys []string
	for _, k := range c.kinds {
		for _, v := range k.versions {
			for key := range v.keys.fields {
				if v.keys.has(key) && consistency.Where(key, "").Validate() == nil {
					keys = append(keys, key)
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Has says whether e's Go type, or the type that it points to, or the pointer
// to it, is in the codec. [Codec.Encode] says which of them is right. A
// [Marker] is no event of the domain: false.
func (c *Codec) Has(e Event) bool {
	t := reflect.TypeOf(e)
	return t != nil && (c.byType[t] != nil || c.byType[otherForm(t)] != nil)
}

// Encode returns e's data as it is stored, with the command's ID in it under
// [consistency.CommandKey], and the version of e's type that it is written as,
// at least 1. Without a command (the zero UUID) the key is left out. The name it
// is stored under is e.EventType().
//
// Errors wrap [ErrUnknownType] where e's Go type is not in the codec, and
// [ErrUnencodable] where e does not become a JSON object that reads back as e.
func (c *Codec) Encode(e Event, command uuid.UUID) (data json.RawMessage, version int, err error) {
	data, version, err = c.encode(e)
	if err != nil {
		return nil, 0, fmt.Errorf("event: %w", err)
	}
	return withCommand(data, command), version, nil
}

func (c *Codec) encode(e Event) (data []byte, version int, err error) {
	if m, ok := e.(Marker); ok {
		data, err = c.encodeMarker(m)
		return data, 1, err
	}
	k, err := c.kindOf(e)
	if err != nil {
		return nil, 0, err
	}
	if data, err = k.encode(e); err != nil {
		err = fmt.Errorf("%w: %T: %w", ErrUnencodable, e, err)
	}
	return data, len(k.versions), err
}

// kindOf finds what e is, and says what is wrong with it where it is nothing.
func (c *Codec) kindOf(e Event) (*kind, error) {
	t := reflect.TypeOf(e)
	k := c.byType[t]
	if k == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownType, c.whatIs(t))
	}
	if v := reflect.ValueOf(e); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: a nil %s", ErrUnencodable, t)
	}
	if name := e.EventType(); name != k.name {
		return nil, fmt.Errorf("%w: EventType of this %s is %q, and of a zero one %q: it must not depend on the value", ErrUnencodable, t, name, k.name)
	}
	return k, nil
}

func (c *Codec) whatIs(t reflect.Type) string {
	switch {
	case t == nil:
		return "it is nil: leave it out"
	case t == reflect.TypeFor[*Marker]():
		return "return event.Marker, not a pointer to it"
	}
	if k := c.byType[otherForm(t)]; k != nil {
		return fmt.Sprintf("return %s, not %s (the codec was made with event.Of[%s])", k.goType, t, k.goType)
	}
	for _, k := range c.kinds {
		for i, v := range k.versions {
			if v.goType == t {
				return fmt.Sprintf("%s is version %d of %q: return the current %s", t, i+1, k.name, k.goType)
			}
		}
	}
	return fmt.Sprintf("%s: add event.Of[%s]() to event.NewCodec", t, t)
}

// otherForm is the pointer to t, or what t points to.
func otherForm(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return reflect.PointerTo(t)
}

// kind is one event type, checked.
type kind struct {
	name     string
	names    []string // all of them, sorted
	goType   reflect.Type
	versions []version
	first    int // slot of version 1 in the keyIndex
}

// version is one of the forms a type's data has had.
type version struct {
	goType  reflect.Type
	decode  decoder
	numbers bool
	upcast  func(any) any // to the next one; nil in the current version
	keys    keySet
}

func (k *kind) encode(e Event) (data []byte, err error) {
	defer recovered(&err)
	data, err = json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if data[0] != '{' {
		return nil, fmt.Errorf("it is stored as %.40s, not as a JSON object", data)
	}
	if k.versions[len(k.versions)-1].keys.open {
		if err := noReservedKey(data); err != nil {
			return nil, err
		}
	}
	// What is not UTF-8 has been replaced in silence. (A valid U+FFFD would
	// stand there as itself.)
	if bytes.Contains(data, []byte(`\ufffd`)) {
		if path := notUTF8(reflect.ValueOf(e), k.goType.String()); path != "" {
			return nil, fmt.Errorf("%s is not valid UTF-8, which JSON cannot hold: encode it, as base64 for example", path)
		}
	}
	return data, nil
}

func noReservedKey(data []byte) error {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return err
	}
	for key := range top {
		if consistency.Reserved(key) {
			return fmt.Errorf("key %q is reserved for the framework: rename it", key)
		}
	}
	return nil
}

// withCommand puts the command's ID in front of an object's keys.
func withCommand(object []byte, command uuid.UUID) json.RawMessage {
	if command == uuid.Nil {
		return object
	}
	out := make([]byte, 0, len(commandStart)+36+2+len(object))
	out = append(out, commandStart...)
	out = appendUUID(out, command)
	out = append(out, '"')
	if len(object) > len("{}") {
		out = append(out, ',')
	}
	return append(out, object[1:]...)
}

const commandStart = `{"` + consistency.CommandKey + `":"`

func appendUUID(b []byte, id uuid.UUID) []byte {
	text := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	at := 0
	for i, x := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			at++
		}
		text[at], text[at+1] = hexDigits[x>>4], hexDigits[x&15]
		at += 2
	}
	return append(b, text[:]...)
}

const hexDigits = "0123456789abcdef"

// withoutCommand takes the command's ID out again, for types that would see it.
func withoutCommand(data []byte) ([]byte, error) {
	const end = len(commandStart) + 36
	if len(data) > end+1 && string(data[:len(commandStart)]) == commandStart && string(data[end:end+2]) == `",` &&
		!bytes.ContainsRune(data[:end], '\\') {
		return append([]byte{'{'}, data[end+2:]...), nil
	}
	var top map[string]json.RawMessage // a store may have changed the order
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, err
	}
	if _, ok := top[consistency.CommandKey]; !ok {
		return data, nil
	}
	delete(top, consistency.CommandKey)
	return json.Marshal(top)
}

// Decode returns the domain event that r holds, as its current Go type: a value
// or a pointer as it was given to [Of], or a [Marker]. r may have any name and
// any version that the codec knows. Errors are of type [*DecodeError]; panics
// in UnmarshalJSON and in upcasts are such errors too.
//
// Keys that the Go type does not have are passed over, and what a field does
// not find is zero. Where a type holds an interface (any, map[string]any),
// numbers in it are json.Number and so keep all their digits.
func (c *Codec) Decode(r Record) (Event, error) {
	e, err := c.decode(r.Type, r.Metadata.Version, r.Data)
	if err == nil {
		return e, nil
	}
	version := r.Metadata.Version
	if version == 0 {
		version = 1
	}
	return nil, &DecodeError{ID: r.ID, Type: r.Type, Version: version, Position: r.Position, Err: err}
}

func (c *Codec) decode(name string, version int, data []byte) (Event, error) {
	if version == 0 {
		version = 1
	}
	k := c.byName[name]
	var e Event
	var err error
	switch {
	case k != nil:
		e, err = k.decode(version, data)
	case name == MarkerType:
		e, err = c.decodeMarker(version, data)
	default:
		return nil, fmt.Errorf("%w: register it with event.Of, or as an old name of another type with Formerly%s", ErrUnknownType, didYouMean(name, c.names))
	}
	if err != nil && !errors.Is(err, ErrUnknownType) { // a marker's refusal may be unknown
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return e, err
}

func (k *kind) decode(version int, data []byte) (e Event, err error) {
	defer recovered(&err)
	if err := checkStored(data, version, len(k.versions)); err != nil {
		return nil, err
	}
	versions := k.versions[version-1:]
	first := &versions[0]
	if first.keys.open {
		if data, err = withoutCommand(data); err != nil {
			return nil, err
		}
	}
	v, err := first.decode(data, first.numbers)
	if err != nil {
		return nil, fmt.Errorf("as %s: %w", first.goType, err)
	}
	for _, step := range versions[:len(versions)-1] {
		v = step.upcast(v)
	}
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer && rv.IsNil() {
		return nil, fmt.Errorf("the upcast to %s returned nil", k.goType)
	}
	return v.(Event), nil
}

func checkStored(data []byte, version, known int) error {
	switch text := bytes.TrimLeft(data, " \t\r\n"); {
	case version < 1:
		return fmt.Errorf("there is no version %d", version)
	case version > known:
		return fmt.Errorf("it was written as version %d, and this program knows versions up to %d: update this program", version, known)
	case len(text) == 0 || text[0] != '{':
		return fmt.Errorf("it is %.40q, not a JSON object", text)
	}
	return nil
}
