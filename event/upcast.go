package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
)

// Upcast turns an older version of an event type into the next one. Make it
// with [From].
type Upcast struct {
	from, to reflect.Type
	decode   decoder
	apply    func(any) any
}

// From is the step from one version of an event type to the next. Old is the Go
// type as it was (it needs no methods); keep it, with its JSON tags, as long as
// events of that version may be in a log. f must be pure, and it sees the
// payload alone: position, ID and name of an event never change.
//
// The steps are given to [Of], oldest first. Together they lead to the current
// type, each beginning where the one before it ended.
func From[Old, New any](f func(Old) New) Upcast {
	up := Upcast{from: reflect.TypeFor[Old](), to: reflect.TypeFor[New](), decode: decodeAs[Old]}
	if f != nil {
		up.apply = func(old any) any { return f(old.(Old)) }
	}
	return up
}

// decoder reads one JSON object. With numbers, a number that lands in an
// interface is a json.Number, not a float64 that rounds it.
type decoder func(data []byte, numbers bool) (any, error)

func decodeAs[T any](data []byte, numbers bool) (any, error) {
	var v T
	if !numbers {
		if err := json.Unmarshal(data, &v); err != nil {
			return nil, err
		}
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the object")
	}
	return v, nil
}

// holdsInterface says whether decoding into t may fill an interface, where a
// plain decode would round integers beyond 2^53.
func holdsInterface(t reflect.Type) bool {
	seen := map[reflect.Type]bool{}
	var holds func(reflect.Type) bool
	holds = func(t reflect.Type) bool {
		if seen[t] || implements(t, unmarshalerType) || implements(t, textUnmarshalerType) {
			return false
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Interface:
			return true
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			return holds(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				if holds(f.Type) {
					return true
				}
			}
		}
		return false
	}
	return holds(t)
}
