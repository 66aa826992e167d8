package event

import (
	"fmt"
	"reflect"
	"slices"
)

// Kind is one event type of a codec. Make it with [Of].
type Kind struct {
	goType   reflect.Type
	name     string
	formerly []string
	older    []Upcast
	decode   decoder
	err      error
}

// Of is the event type that E's EventType names. E is a Go type by value or by
// pointer; Decide returns events, and folds get them, in that same form.
//
// A type whose stored form has changed takes the steps from each older version,
// oldest first: Of[Opened](From(v1ToV2), From(v2ToOpened)). E is then version
// len(older)+1, and what was stored as an older one reads as E everywhere.
// Adding a field needs no new version: in older events it is zero.
func Of[E Event](older ...Upcast) Kind {
	k := Kind{goType: reflect.TypeFor[E](), older: slices.Clone(older), decode: decodeAs[E]}
	k.name, k.err = nameOf[E]()
	return k
}

// Formerly adds names under which events of this type were stored before it was
// renamed. They are decoded, and matched by queries, like the current name. All
// names share one count of versions.
func (k Kind) Formerly(names ...string) Kind {
	k.formerly = slices.Concat(k.formerly, names)
	return k
}

// TypeOf returns the name that events of Go type E are stored under, for
// queries: consistency.Where("accountId", id).Type(event.TypeOf[Opened]()). It
// panics where E's EventType needs more than a zero value; [NewCodec] says why.
func TypeOf[E Event]() string {
	name, err := nameOf[E]()
	if err != nil {
		panic("event: " + err.Error())
	}
	return name
}

func nameOf[E Event]() (name string, err error) {
	t := reflect.TypeFor[E]()
	var e E
	switch t.Kind() {
	case reflect.Interface:
		return "", fmt.Errorf("%s is an interface: name the Go type of the event", t)
	case reflect.Pointer: // a nil one would crash in a method of the value
		e = reflect.New(t.Elem()).Interface().(E)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("EventType of a zero %s panics (%v): let it return a constant", t, p)
		}
	}()
	return e.EventType(), nil
}
