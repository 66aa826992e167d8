package command

import (
	"reflect"
	"time"
)

// keeping says whether and how states of a type can be kept between commands.
type keeping[S any] struct {
	possible bool
	clone    func(S) S // nil: a plain copy shares nothing
	weigh    func(any) int
}

type cloner[S any] interface{ Clone() S }

func keepingOf[S any]() keeping[S] {
	t := reflect.TypeFor[S]()
	k := keeping[S]{weigh: weigh}
	weighs := t.Implements(reflect.TypeFor[interface{ Weight() int }]())
	if weighs {
		k.weigh = func(state any) int { return state.(interface{ Weight() int }).Weight() }
	}
	switch {
	case t.Implements(reflect.TypeFor[cloner[S]]()):
		k.possible = true
		k.clone = func(s S) S {
			if v := reflect.ValueOf(&s).Elem(); (v.Kind() == reflect.Pointer || v.Kind() == reflect.Map || v.Kind() == reflect.Interface) && v.IsNil() {
				return s
			}
			return any(s).(cloner[S]).Clone()
		}
	case flat(t):
		k.possible = true
		if !weighs && !textual(t) {
			size := int(t.Size())
			k.weigh = func(any) int { return size }
		}
	}
	return k
}

// flat says that a copy of a value shares nothing that can change.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return true
		}
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	}
	return true
}

// textual says that a flat type holds strings, whose sizes differ.
func textual(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Array:
		return textual(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if textual(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// weigh is the memory that a value is seen to take, in bytes: its own size and
// what it refers to, as far as a limited look shows.
func weigh(state any) int {
	v := reflect.ValueOf(state)
	if !v.IsValid() {
		return 0
	}
	s := scales{left: 100_000}
	return int(v.Type().Size()) + s.referred(v)
}

// scales stop after so many values: pointers may go round.
type scales struct{ left int }

func (s *scales) whole(v reflect.Value) int { return int(v.Type().Size()) + s.referred(v) }

func (s *scales) referred(v reflect.Value) (n int) {
	if s.left--; s.left < 0 {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return 0
		}
		for i := range v.NumField() {
			n += s.referred(v.Field(i))
		}
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice {
			n = v.Cap() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && s.left > 0; i++ {
			n += s.referred(v.Index(i))
		}
	case reflect.Map:
		const overhead = 16 // of a map's entry beside key and value, about
		for it := v.MapRange(); it.Next() && s.left > 0; {
			n += s.whole(it.Key()) + s.whole(it.Value()) + overhead
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = s.whole(v.Elem())
		}
	}
	return n
}
