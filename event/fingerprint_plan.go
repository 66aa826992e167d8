package event

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// plan writes values of one Go type; it is worked out once per type.
type plan struct {
	// write appends v's form and says whether v is zero: its form is then left
	// out of a struct.
	write    func(w *writer, v reflect.Value) (zero bool, err error)
	volatile bool
	err      error // of the type itself
}

var plans sync.Map // reflect.Type -> *plan

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	b := planner{building: map[reflect.Type]*plan{}}
	root, err := b.plan(t, baseName(t))
	// Only the root is kept: whether a part of a recursive type is volatile is
	// known for the whole.
	p, _ := plans.LoadOrStore(t, &plan{write: root.write, volatile: b.volatile, err: err})
	return p.(*plan)
}

type planner struct {
	building map[reflect.Type]*plan
	volatile bool
}

var timeType = reflect.TypeFor[time.Time]()

// asItself says whether t writes its own form.
func asItself(t reflect.Type) bool {
	return implements(t, marshalerType) || implements(t, textMarshalerType)
}

func (b *planner) plan(t reflect.Type, path string) (*plan, error) {
	if p := b.building[t]; p != nil {
		return p, nil
	}
	p := &plan{}
	b.building[t] = p
	var err error
	p.write, err = b.writer(t, path)
	return p, err
}

func (b *planner) writer(t reflect.Type, path string) (func(*writer, reflect.Value) (bool, error), error) {
	if t.Kind() == reflect.Interface {
		return writeInterface, nil
	}
	if t.Kind() != reflect.Pointer && asItself(t) {
		if by := hiddenBy(t); by != "" {
			return nil, fmt.Errorf("%s embeds %s, whose way to be encoded may hide the other fields: give the embedded field a name", path, by)
		}
		if t == timeType {
			return writeTime, nil
		}
		return formWriter(t), nil
	}
	switch t.Kind() {
	case reflect.String:
		if t == numberType {
			return writeNumber, nil
		}
		return writeString, nil
	case reflect.Bool:
		return writeBool, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return writeInt, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return writeUint, nil
	case reflect.Float32, reflect.Float64:
		return writeFloat, nil
	case reflect.Struct:
		return b.structWriter(t, path)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		if t.Kind() != reflect.Pointer && t.Elem().Kind() == reflect.Uint8 && !asItself(t.Elem()) {
			return writeBytes, nil
		}
		elem, err := b.plan(t.Elem(), path)
		switch t.Kind() {
		case reflect.Pointer:
			return pointerWriter(elem), err
		case reflect.Array:
			return arrayWriter(elem), err
		}
		return sliceWriter(elem), err
	case reflect.Map:
		key, err := b.plan(t.Key(), path+" (a key)")
		if err != nil {
			return nil, err
		}
		elem, err := b.plan(t.Elem(), path)
		return mapWriter(key, elem), err
	}
	return nil, fmt.Errorf(`%s is of type %s, which has no value to compare: take it out, or tag it ccc:"-"`, path, t)
}

// structField is a field of a plan: its name is written as text before it.
type structField struct {
	name  string
	index int
	plan  *plan
}

func (b *planner) structWriter(t reflect.Type, path string) (func(*writer, reflect.Value) (bool, error), error) {
	var fields []structField
	for i := range t.NumField() {
		f := t.Field(i)
		at := path + "." + f.Name
		if f.Tag.Get("ccc") == "-" {
			b.volatile = true
			continue
		}
		if f.Name == "_" {
			continue
		}
		if !f.IsExported() && !plainEmbedded(f) {
			return nil, fmt.Errorf(`%s is not exported, so nobody could see it differ: export it, or tag it ccc:"-" if it may differ between repeats`, at)
		}
		p, err := b.plan(f.Type, at)
		if err != nil {
			return nil, err
		}
		fields = append(fields, structField{fingerprintName(f), i, p})
	}
	slices.SortFunc(fields, func(x, y structField) int { return strings.Compare(x.name, y.name) })
	for i := 1; i < len(fields); i++ {
		if fields[i].name == fields[i-1].name {
			return nil, fmt.Errorf("%s has two fields named %q, one of them by its JSON tag: rename one", path, fields[i].name)
		}
	}
	return fieldsWriter(fields), nil
}

// plainEmbedded: the exported fields of an embedded struct can be seen, whether
// the struct's type is exported or not.
func plainEmbedded(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return f.Anonymous && t.Kind() == reflect.Struct && !asItself(t)
}

func fingerprintName(f reflect.StructField) string {
	tag := f.Tag.Get("json")
	name, _, _ := strings.Cut(tag, ",")
	if tag == "-" || !validTag(name) {
		return f.Name
	}
	return name
}
