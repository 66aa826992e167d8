package sqlitetarget

import (
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"zombiezen.com/go/sqlite"
)

// timeForm has a fixed length and one zone, so that texts sort as times do.
const timeForm = "2006-01-02T15:04:05.000000000Z"

// bind gives a statement one of its values; see [Tx] for what can be one.
func bind(stmt *sqlite.Stmt, i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		stmt.BindNull(i)
	case string:
		stmt.BindText(i, v)
	case int:
		stmt.BindInt64(i, int64(v))
	case int64:
		stmt.BindInt64(i, v)
	case bool:
		stmt.BindBool(i, v)
	case []byte:
		if v == nil {
			stmt.BindNull(i)
		} else {
			stmt.BindBytes(i, v)
		}
	case json.RawMessage: // SQLite's functions for JSON want text
		if v == nil {
			stmt.BindNull(i)
		} else {
			stmt.BindText(i, string(v))
		}
	case time.Time:
		v = v.UTC()
		if v.Year() < 0 || v.Year() > 9999 {
			return fmt.Errorf("the time %s cannot be written with a year of four digits", v)
		}
		stmt.BindText(i, v.Format(timeForm))
	default:
		return bindOther(stmt, i, arg)
	}
	return nil
}

func bindOther(stmt *sqlite.Stmt, i int, arg any) error {
	r := reflect.ValueOf(arg)
	if r.Kind() == reflect.Pointer && r.IsNil() {
		stmt.BindNull(i)
		return nil
	}
	if v, ok := arg.(driver.Valuer); ok {
		value, err := v.Value()
		if err != nil {
			return err
		}
		return bind(stmt, i, value)
	}
	if m, ok := arg.(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err == nil {
			stmt.BindText(i, string(text))
		}
		return err
	}
	switch r.Kind() {
	case reflect.Pointer:
		return bind(stmt, i, r.Elem().Interface())
	case reflect.String:
		stmt.BindText(i, r.String())
	case reflect.Bool:
		stmt.BindBool(i, r.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		stmt.BindInt64(i, r.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if r.Uint() > math.MaxInt64 {
			return fmt.Errorf("%d is beyond int64, which is all that SQLite has: store it as text", r.Uint())
		}
		stmt.BindInt64(i, int64(r.Uint()))
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(r.Float()) {
			return fmt.Errorf("SQLite has no NaN: it would be stored as NULL")
		}
		stmt.BindFloat(i, r.Float())
	case reflect.Slice:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return bind(stmt, i, r.Bytes())
		}
		fallthrough
	default:
		return fmt.Errorf("a %T cannot be stored: give a string, []byte, number, bool, time.Time, nil, or a type with MarshalText or Value", arg)
	}
	return nil
}
