package event

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/cccgo/ccc/consistency"
)

// unfit says why values of t would not survive the way to the log and back. A
// fact that encoding/json drops in silence is lost for ever, one that it cannot
// read back stops every reader: both are errors before the first event.
func unfit(t reflect.Type) error {
	return (&fitness{seen: map[reflect.Type]bool{}}).check(t, baseName(t))
}

type fitness struct{ seen map[reflect.Type]bool }

func (c *fitness) check(t reflect.Type, path string) error {
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	if t.Kind() == reflect.Pointer {
		return c.check(t.Elem(), path)
	}
	if by := hiddenBy(t); by != "" {
		return fmt.Errorf("%s embeds %s, whose way to be encoded may hide the other fields: give the embedded field a name", path, by)
	}
	switch {
	case implements(t, marshalerType), implements(t, unmarshalerType), implements(t, textUnmarshalerType):
		return nil
	case implements(t, textMarshalerType) && t.Kind() != reflect.String && t.Kind() != reflect.Interface:
		return fmt.Errorf("%s is of type %s, which has MarshalText but no UnmarshalText: it could be written but never read back", path, t)
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf(`%s is of type %s, which JSON does not have: take it out, or tag it json:"-"`, path, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is of interface type %s, which could be written but never read back: use a Go type that can", path, t)
		}
	case reflect.Slice, reflect.Array:
		return c.check(t.Elem(), path)
	case reflect.Map:
		if k := t.Key(); k.Kind() != reflect.String && (k.Kind() < reflect.Int || k.Kind() > reflect.Uintptr) && !implements(k, textMarshalerType) {
			return fmt.Errorf("%s is a map with keys of type %s, which JSON does not have: use string keys", path, k)
		}
		return c.check(t.Elem(), path)
	case reflect.Struct:
		return c.checkStruct(t, path)
	}
	return nil
}

func (c *fitness) checkStruct(t reflect.Type, path string) error {
	if lost := keysOf(t).lost; len(lost) > 0 {
		return fmt.Errorf("%s has several fields with the key %q, and encoding/json would store none of them: rename all but one", path, lost[0])
	}
	for f := range t.Fields() {
		at := path + "." + f.Name
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-" || f.Name == "_":
			continue
		case !f.IsExported() && f.Anonymous && ft.Kind() == reflect.Struct:
			if f.Type.Kind() == reflect.Pointer {
				return fmt.Errorf("%s is an embedded pointer to a type that is not exported, which encoding/json cannot read back: embed the value", at)
			}
		case !f.IsExported():
			return fmt.Errorf(`%s is not exported, so it would not be stored: export it, or tag it json:"-"`, at)
		}
		if err := c.check(f.Type, at); err != nil {
			return err
		}
	}
	return nil
}

// hiddenBy names an embedded field of t whose methods t may have taken over as
// its own: what they write is then all that there is of t. (Reflection cannot
// tell a promoted method from one of t's own.) Empty where nothing is hidden.
func hiddenBy(t reflect.Type) string {
	if t.Kind() != reflect.Struct || t.NumField() < 2 {
		return ""
	}
	for _, methods := range []reflect.Type{marshalerType, unmarshalerType, textMarshalerType} {
		if !implements(t, methods) {
			continue
		}
		for f := range t.Fields() {
			if f.Anonymous && implements(f.Type, methods) {
				return f.Type.String()
			}
		}
	}
	return ""
}

// notObject says why t is no JSON object, or nil.
func notObject(t reflect.Type) error {
	base := t
	if t.Kind() == reflect.Pointer {
		base = t.Elem()
	}
	switch {
	case implements(base, marshalerType):
		// What it writes can only be tried.
		data, err := tryMarshal(reflect.New(base).Interface())
		if err == nil && data[0] != '{' {
			return fmt.Errorf("the MarshalJSON of %s writes %.40s, not a JSON object", t, data)
		}
		return nil
	case implements(base, textMarshalerType):
		return fmt.Errorf("%s has a MarshalText method, so it would be stored as a JSON string, not an object: give it MarshalJSON, or name the embedded field that brings the method", t)
	case base.Kind() == reflect.Struct, base.Kind() == reflect.Map:
		return nil
	}
	return fmt.Errorf("%s is not stored as a JSON object: use a struct", t)
}

func tryMarshal(v any) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return json.Marshal(v)
}

// reservedIn names a key of the framework among keys, as encoding/json would
// read it: it does not tell upper case from lower case.
func reservedIn(keys keySet) (key string, field keyField, found bool) {
	for key, field := range keys.fields {
		if consistency.Reserved(key) || strings.EqualFold(key, consistency.CommandKey) || strings.EqualFold(key, "eventType") {
			return key, field, true
		}
	}
	return "", keyField{}, false
}

func baseName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return cmp.Or(t.Name(), t.Kind().String())
}
