package sqlitetarget

import (
	"database/sql"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

type (
	cents int64
	label string
	thing struct{ X int }
)

// What goes in comes out, exactly.
func TestValues(t *testing.T) {
	target := fresh(t)
	const sq = `SELECT ?1, typeof(?1)`
	moment := time.Date(2026, 3, 29, 2, 30, 1, 999_999_999, time.FixedZone("", 2*3600))
	id, pos, text := uuid.New(), consistency.NewPosition(3, math.MaxUint64), "p"
	require.NoError(t, handler(t, target, func(x *Tx) error {
		for _, c := range []struct {
			in     any
			stored string
			want   any
		}{
			{int64(math.MaxInt64), "integer", int64(math.MaxInt64)}, {int64(math.MinInt64), "integer", int64(math.MinInt64)},
			{int64(1<<53 + 1), "integer", int64(1<<53 + 1)}, {uint64(math.MaxInt64), "integer", int64(math.MaxInt64)},
			{-1, "integer", -1}, {int8(-128), "integer", int8(-128)}, {uint8(255), "integer", uint8(255)}, {cents(math.MinInt64), "integer", cents(math.MinInt64)},
			{true, "integer", true}, {false, "integer", false}, {0.1, "real", 0.1}, {float32(0.5), "real", float32(0.5)}, {math.Inf(-1), "real", math.Inf(-1)},
			{math.MaxFloat64, "real", math.MaxFloat64}, {int64(1 << 53), "integer", float64(1 << 53)},
			{"", "text", ""}, {"a\x00b'\"? ä\xff", "text", "a\x00b'\"? ä\xff"}, {label("l"), "text", label("l")}, {&text, "text", text}, {&text, "text", &text},
			{[]byte{}, "blob", []byte{}}, {[]byte{0, 255}, "blob", []byte{0, 255}}, {json.RawMessage(`{"a":1}`), "text", json.RawMessage(`{"a":1}`)},
			{nil, "null", (*string)(nil)}, {(*string)(nil), "null", (*string)(nil)}, {[]byte(nil), "null", nil}, {(*uuid.UUID)(nil), "null", (*int64)(nil)},
			{sql.Null[int64]{}, "null", sql.Null[int64]{}}, {sql.Null[int64]{V: math.MaxInt64, Valid: true}, "integer", sql.Null[int64]{V: math.MaxInt64, Valid: true}},
			{id, "text", id}, {id[:], "blob", id}, {pos, "text", pos}, {pos, "text", pos.String()},
			{moment, "text", moment.UTC()}, {moment, "text", "2026-03-29T00:30:01.999999999Z"}, {time.Time{}, "text", time.Time{}},
		} {
			row, found, err := x.First(sq, c.in)
			require.NoError(t, err, "%#v", c.in)
			require.True(t, found)
			var stored string
			var raw any
			require.NoError(t, row.Scan(&raw, &stored))
			require.Equal(t, c.stored, stored, "%#v", c.in)
			if c.want == nil {
				require.Nil(t, raw)
				continue
			}
			out := newOf(c.want)
			require.NoError(t, row.Scan(out, nil), "%#v", c.in)
			require.Equal(t, c.want, elem(out), "%#v", c.in)
		}
		return nil
	}))
}

// The extremes stay what they are in a table too, and in what SQLite reckons.
func TestIntegersStayExact(t *testing.T) {
	target := fresh(t)
	require.NoError(t, handler(t, target, func(x *Tx) error {
		require.NoError(t, x.Exec(`CREATE TABLE n (i INTEGER)`))
		for _, v := range []int64{math.MinInt64, -1<<53 - 1, 1<<53 + 1, math.MaxInt64 - 1} {
			require.NoError(t, x.Exec(`DELETE FROM n`))
			require.NoError(t, x.Exec(`INSERT INTO n VALUES (?1)`, v))
			require.NoError(t, x.Exec(`UPDATE n SET i = i + ?1`, 1))
			row, _, err := x.First(`SELECT i FROM n`)
			require.NoError(t, err)
			var got int64
			require.NoError(t, row.Scan(&got))
			require.Equal(t, v+1, got)
		}
		return nil
	}))
}

func TestValuesThatDoNotFit(t *testing.T) {
	target := fresh(t)
	var i8 int8
	var i64 int64
	var u uint
	var s string
	var f float64
	var f32 float32
	var b bool
	var at time.Time
	var p consistency.Position
	require.NoError(t, target.Read(t.Context(), func(x *Tx) error {
		for _, v := range []any{uint64(math.MaxInt64 + 1), math.NaN(), thing{}, []string{"a"}, map[string]int{}, make(chan int), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			require.ErrorContains(t, x.Exec(`SELECT ?1`, v), "value 1: ")
		}
		for _, c := range []struct {
			in, dest any
			says     string
		}{
			{128, &i8, "INTEGER 128 does not fit into a int8"}, {-1, &u, "INTEGER -1"}, {2, &b, "INTEGER 2"}, {1<<53 + 1, &f, "INTEGER 9007199254740993"},
			{math.MaxInt64, &f, "INTEGER 9223372036854775807"}, {0.1, &f32, "REAL 0.1"}, {1.0, &i64, "REAL 1"}, {"1", &i64, `TEXT "1"`}, {1, &s, "INTEGER 1"},
			{nil, &s, "NULL does not fit"}, {nil, &i64, "NULL"}, {nil, &at, "NULL"}, {"yesterday", &at, "cannot parse"}, {"?", &p, "not a position"},
			{[]byte{1}, &i64, "a BLOB of 1 bytes"}, {1, i64, "give a pointer"}, {1, (*int64)(nil), "give a pointer"}, {1, &thing{}, "thing"},
		} {
			row, _, err := x.First(`SELECT ?1`, c.in)
			require.NoError(t, err)
			err = row.Scan(c.dest)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "column 1")
		}
		row, _, err := x.First(`SELECT 1, 2`)
		require.ErrorContains(t, row.Scan(&i64), "the row has 2 columns, not 1")
		return err
	}))
}

func newOf(v any) any { return reflect.New(reflect.TypeOf(v)).Interface() }

func elem(p any) any { return reflect.ValueOf(p).Elem().Interface() }
