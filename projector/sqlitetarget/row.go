package sqlitetarget

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

// Row is a row of a query's result. It stays as it is when the query goes on.
type Row struct {
	values []any // int64, float64, string, []byte or nil
}

// read copies the row that stmt stands at.
func (p *statement) read() Row {
	values := make([]any, p.cols)
	for i := range values {
		switch p.ColumnType(i) {
		case sqlite.TypeInteger:
			values[i] = p.ColumnInt64(i)
		case sqlite.TypeFloat:
			values[i] = p.ColumnFloat(i)
		case sqlite.TypeText:
			values[i] = p.ColumnText(i)
		case sqlite.TypeBlob:
			b := make([]byte, p.ColumnLen(i))
			p.ColumnBytes(i, b)
			values[i] = b
		}
	}
	return Row{values}
}

// scanner is [database/sql.Scanner]: uuid.UUID has it, and sql.Null[T] for what
// may be NULL.
type scanner interface{ Scan(src any) error }

// Scan copies the columns into what dest points at, one for each; nil passes
// over a column. Nothing is changed on the way: an INTEGER goes into integer
// types that hold it, and 0 and 1 into bool; REAL goes into floats, so does an
// INTEGER that a float64 holds exactly; TEXT and BLOB go into string and []byte;
// a time that a [Tx] wrote goes into time.Time; TEXT into a type with
// UnmarshalText; everything into any. NULL goes into pointers to pointers, any,
// and types with a Scan method, such as sql.Null. Whatever does not fit is an
// error.
func (r Row) Scan(dest ...any) error {
	if len(dest) != len(r.values) {
		return fmt.Errorf("sqlitetarget: scan: the row has %d columns, not %d", len(r.values), len(dest))
	}
	for i, d := range dest {
		if d == nil {
			continue
		}
		if v := reflect.ValueOf(d); v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("sqlitetarget: scan: column %d: %T is nothing to scan into: give a pointer", i+1, d)
		}
		if err := scan(r.values[i], d); err != nil {
			return fmt.Errorf("sqlitetarget: scan: column %d: %w", i+1, err)
		}
	}
	return nil
}

func scan(value, dest any) error {
	switch d := dest.(type) {
	case *int64:
		if v, ok := value.(int64); ok {
			*d = v
			return nil
		}
	case *string:
		if v, ok := value.(string); ok {
			*d = v
			return nil
		}
	case *any:
		*d = value
		if b, ok := value.([]byte); ok {
			*d = slices.Clone(b)
		}
		return nil
	case *time.Time:
		if v, ok := value.(string); ok {
			at, err := time.Parse(timeForm, v)
			if err == nil {
				*d = at
			}
			return err
		}
	case scanner:
		if b, ok := value.([]byte); ok {
			value = slices.Clone(b)
		}
		return d.Scan(value)
	case encoding.TextUnmarshaler:
		if v, ok := value.(string); ok {
			return d.UnmarshalText([]byte(v))
		}
	}
	return scanInto(value, reflect.ValueOf(dest))
}

func scanInto(value any, dest reflect.Value) error {
	to := dest.Elem()
	misfit := fmt.Errorf("%s does not fit into a %s", describe(value), to.Type())
	if to.Kind() == reflect.Pointer {
		if value == nil {
			to.SetZero()
			return nil
		}
		made := reflect.New(to.Type().Elem())
		err := scan(value, made.Interface())
		if err == nil {
			to.Set(made)
		}
		return err
	}
	switch v := value.(type) {
	case int64:
		return scanInt(v, to, misfit)
	case float64:
		if to.CanFloat() && !to.OverflowFloat(v) && (to.Kind() == reflect.Float64 || float64(float32(v)) == v) {
			to.SetFloat(v)
			return nil
		}
	case string:
		switch {
		case to.Kind() == reflect.String:
			to.SetString(v)
			return nil
		case isBytes(to):
			to.SetBytes([]byte(v))
			return nil
		}
	case []byte:
		switch {
		case to.Kind() == reflect.String:
			to.SetString(string(v))
			return nil
		case isBytes(to):
			to.SetBytes(slices.Clone(v))
			return nil
		}
	}
	return misfit
}

func scanInt(v int64, to reflect.Value, misfit error) error {
	switch {
	case to.CanInt() && !to.OverflowInt(v):
		to.SetInt(v)
	case to.CanUint() && v >= 0 && !to.OverflowUint(uint64(v)):
		to.SetUint(uint64(v))
	case to.Kind() == reflect.Bool && (v == 0 || v == 1):
		to.SetBool(v == 1)
	case to.Kind() == reflect.Float64 && float64(v) < math.MaxInt64 && int64(float64(v)) == v:
		to.SetFloat(float64(v))
	default:
		return misfit
	}
	return nil
}

func isBytes(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
}

func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case int64:
		return fmt.Sprintf("the INTEGER %d", v)
	case float64:
		return fmt.Sprintf("the REAL %v", v)
	case []byte:
		return fmt.Sprintf("a BLOB of %d bytes", len(v))
	}
	return fmt.Sprintf("the TEXT %.40q", value)
}
