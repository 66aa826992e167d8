package event

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

func writeString(w *writer, v reflect.Value) (bool, error) {
	w.string(v.String())
	return v.Len() == 0, nil
}

func writeNumber(w *writer, v reflect.Value) (bool, error) {
	text := cmp.Or(v.String(), "0") // as encoding/json takes an empty one
	w.number(text)
	return text == "0", nil
}

func writeBool(w *writer, v reflect.Value) (bool, error) {
	w.bool(v.Bool())
	return !v.Bool(), nil
}

func writeInt(w *writer, v reflect.Value) (bool, error) {
	var buf [20]byte
	w.number(string(strconv.AppendInt(buf[:0], v.Int(), 10)))
	return v.Int() == 0, nil
}

func writeUint(w *writer, v reflect.Value) (bool, error) {
	var buf [20]byte
	w.number(string(strconv.AppendUint(buf[:0], v.Uint(), 10)))
	return v.Uint() == 0, nil
}

func writeFloat(w *writer, v reflect.Value) (bool, error) {
	f := v.Float()
	if math.IsNaN(f) {
		return false, errNaN
	}
	if f == 0 {
		f = 0 // -0 is no other number
	}
	w.out = append(w.out, 'd')
	w.out = binary.BigEndian.AppendUint64(w.out, math.Float64bits(f))
	return f == 0, nil
}

func writeBytes(w *writer, v reflect.Value) (bool, error) {
	w.out = append(w.out, 'b')
	w.out = binary.AppendUvarint(w.out, uint64(v.Len()))
	if v.Kind() == reflect.Slice {
		w.out = append(w.out, v.Bytes()...)
		return v.Len() == 0, nil
	}
	zero := true
	for i := range v.Len() {
		x := byte(v.Index(i).Uint())
		w.out = append(w.out, x)
		zero = zero && x == 0
	}
	return zero, nil
}

func fieldsWriter(fields []structField) func(*writer, reflect.Value) (bool, error) {
	return func(w *writer, v reflect.Value) (bool, error) {
		if err := w.enter(); err != nil {
			return false, err
		}
		defer w.leave()
		w.out = append(w.out, '{')
		zero := true
		for i := range fields {
			f := &fields[i]
			before := len(w.out)
			w.string(f.name)
			isZero, err := f.plan.write(w, v.Field(f.index))
			if err != nil {
				return false, within("."+f.name, err)
			}
			if isZero {
				w.out = w.out[:before]
			} else {
				zero = false
			}
		}
		w.out = append(w.out, '}')
		return zero, nil
	}
}

func pointerWriter(elem *plan) func(*writer, reflect.Value) (bool, error) {
	return func(w *writer, v reflect.Value) (bool, error) {
		if v.IsNil() {
			w.out = append(w.out, '0')
			return true, nil
		}
		if err := w.enter(); err != nil {
			return false, err
		}
		defer w.leave()
		w.out = append(w.out, '*')
		_, err := elem.write(w, v.Elem())
		return false, err
	}
}

func sliceWriter(elem *plan) func(*writer, reflect.Value) (bool, error) {
	array := arrayWriter(elem)
	return func(w *writer, v reflect.Value) (bool, error) {
		_, err := array(w, v)
		return v.Len() == 0, err
	}
}

func arrayWriter(elem *plan) func(*writer, reflect.Value) (bool, error) {
	return func(w *writer, v reflect.Value) (bool, error) {
		if err := w.enter(); err != nil {
			return false, err
		}
		defer w.leave()
		w.out = append(w.out, '[')
		w.out = binary.AppendUvarint(w.out, uint64(v.Len()))
		zero := true
		for i := range v.Len() {
			isZero, err := elem.write(w, v.Index(i))
			if err != nil {
				return false, within(fmt.Sprintf("[%d]", i), err)
			}
			zero = zero && isZero
		}
		return zero, nil
	}
}

func mapWriter(key, elem *plan) func(*writer, reflect.Value) (bool, error) {
	return func(w *writer, v reflect.Value) (bool, error) {
		if err := w.enter(); err != nil {
			return false, err
		}
		defer w.leave()
		w.out = append(w.out, 'm')
		w.out = binary.AppendUvarint(w.out, uint64(v.Len()))
		begin := len(w.out)
		ends := make([]int, 0, v.Len())
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		for entry := v.MapRange(); entry.Next(); {
			k.SetIterKey(entry)
			e.SetIterValue(entry)
			if _, err := key.write(w, k); err != nil {
				return false, within(" (a key)", err)
			}
			if _, err := elem.write(w, e); err != nil {
				return false, within(fmt.Sprintf("[%v]", k), err)
			}
			ends = append(ends, len(w.out))
		}
		w.sort(begin, ends)
		return v.Len() == 0, nil
	}
}

// sort puts entries, written one after the other, into the order of their
// bytes.
func (w *writer) sort(begin int, ends []int) {
	if len(ends) < 2 {
		return
	}
	unsorted := bytes.Clone(w.out[begin:])
	entries := make([][]byte, len(ends))
	from := 0
	for i, end := range ends {
		entries[i] = unsorted[from : end-begin]
		from = end - begin
	}
	slices.SortFunc(entries, bytes.Compare)
	w.out = w.out[:begin]
	for _, e := range entries {
		w.out = append(w.out, e...)
	}
}

var plainTypes = map[reflect.Type]bool{reflect.TypeFor[map[string]any](): true, reflect.TypeFor[[]any](): true, numberType: true}

func writeInterface(w *writer, v reflect.Value) (bool, error) {
	if v.IsNil() {
		w.out = append(w.out, '0')
		return true, nil
	}
	if err := w.enter(); err != nil {
		return false, err
	}
	defer w.leave()
	v = v.Elem()
	t := v.Type()
	p := planOf(t)
	if p.err != nil {
		return false, p.err
	}
	w.volatile = w.volatile || p.volatile
	w.out = append(w.out, '*')
	// Two types with the same fields may mean different things. What JSON
	// decodes to needs no name.
	if (t.PkgPath() != "" || t.Name() == "") && !plainTypes[t] {
		w.out = append(w.out, '@')
		w.text(t.String())
	}
	_, err := p.write(w, v)
	return false, err
}

func writeTime(w *writer, v reflect.Value) (bool, error) {
	t := v.Interface().(time.Time)
	var buf [len(time.RFC3339Nano)]byte
	text, err := t.AppendText(buf[:0])
	w.string(string(text))
	return t.IsZero(), err
}

// formWriter is for types that write their own form. Values whose form is that
// of the zero value are zero: a sum that came to nothing may look different in
// memory.
func formWriter(t reflect.Type) func(*writer, reflect.Value) (bool, error) {
	write := writeText
	if implements(t, marshalerType) {
		write = writeJSON
	}
	zero := []byte{'0'}
	var w writer
	if func() (err error) {
		defer recovered(&err) // some types have no form for their zero value
		return write(&w, reflect.New(t).Elem())
	}() == nil {
		zero = w.out
	}
	return func(w *writer, v reflect.Value) (bool, error) {
		if k := v.Kind(); v.IsZero() || (k == reflect.Slice || k == reflect.Map) && v.Len() == 0 {
			w.out = append(w.out, zero...)
			return true, nil
		}
		before := len(w.out)
		err := write(w, v)
		return bytes.Equal(w.out[before:], zero), err
	}
}

// addressed is v, or a pointer to a copy of it where only pointers have the
// methods.
func addressed(v reflect.Value, methods reflect.Type) any {
	if v.Type().Implements(methods) {
		return v.Interface()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}

func writeText(w *writer, v reflect.Value) error {
	text, err := addressed(v, textMarshalerType).(encoding.TextMarshaler).MarshalText()
	w.string(string(text))
	return err
}

func writeJSON(w *writer, v reflect.Value) error {
	data, err := addressed(v, marshalerType).(json.Marshaler).MarshalJSON()
	if err != nil {
		return err
	}
	if !utf8.Valid(data) {
		return errors.New("its JSON is not valid UTF-8")
	}
	value, err := decodeAs[any](data, true)
	if err != nil {
		return fmt.Errorf("its JSON: %w", err)
	}
	w.json(value)
	return nil
}

// json writes what a decode with numbers gives.
func (w *writer) json(value any) {
	switch x := value.(type) {
	case nil:
		w.out = append(w.out, '0')
	case bool:
		w.bool(x)
	case string:
		w.string(x)
	case json.Number:
		w.number(x.String())
	case []any:
		w.out = append(w.out, '[')
		w.out = binary.AppendUvarint(w.out, uint64(len(x)))
		for _, e := range x {
			w.json(e)
		}
	case map[string]any:
		w.out = append(w.out, 'm')
		w.out = binary.AppendUvarint(w.out, uint64(len(x)))
		for _, key := range slices.Sorted(maps.Keys(x)) {
			w.string(key)
			w.json(x[key])
		}
	}
}
