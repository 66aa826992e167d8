package sqlitetarget

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// handler runs a handler in a batch of its own, which stays where it is.
func handler(t *testing.T, target *Target, h func(*Tx) error) error {
	t.Helper()
	return handlerOn(t.Context(), target, h)
}

func handlerOn(ctx context.Context, target *Target, h func(*Tx) error) error {
	claim, err := target.Claim(ctx, testName)
	if err != nil {
		return err
	}
	return errors.Join(target.Apply(ctx, claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		return at(0), h(b.Tx())
	}), target.Release(context.WithoutCancel(ctx), claim))
}

func newTarget(t *testing.T) *Target {
	return open(t, filepath.Join(t.TempDir(), "model.db"), 0)
}

func execs(sql string, args ...any) func(*Tx) error {
	return func(x *Tx) error { return x.Exec(sql, args...) }
}

func queries(sql string, args ...any) func(*Tx) error {
	return func(x *Tx) error {
		for _, err := range x.Query(sql, args...) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// What a handler must not do is refused, and so is its batch.
func TestForbiddenInHandlers(t *testing.T) {
	target := newTarget(t)
	other := filepath.Join(t.TempDir(), "other.db")
	for _, c := range []struct{ sql, says string }{
		{`BEGIN`, "BEGIN: the transaction begins and ends with the batch"},
		{`COMMIT`, "COMMIT: the transaction"},
		{` commit ;`, "COMMIT: the transaction"},
		{`END`, "COMMIT: the transaction"},
		{`ROLLBACK`, "return an error to roll it back"},
		{`SAVEPOINT a`, "BEGIN: the transaction"},
		{`RELEASE a`, "RELEASE: the transaction"},
		{`ROLLBACK TO a`, "ROLLBACK: the transaction"},
		{`ATTACH '` + other + `' AS o`, "reach beyond the file"},
		{`DETACH main`, "reach beyond the file"},
		{`PRAGMA journal_mode=delete`, "PRAGMA journal_mode"},
		{`PRAGMA synchronous=OFF`, "PRAGMA synchronous"},
		{`PRAGMA foreign_keys=OFF`, "PRAGMA foreign_keys"},
		{`PRAGMA user_version=7`, "PRAGMA user_version"},
		{`PRAGMA wal_checkpoint`, "PRAGMA wal_checkpoint"},
		{`PRAGMA writable_schema=ON`, "PRAGMA writable_schema"},
		{`PRAGMA main.optimize`, "PRAGMA optimize"},
		{`UPDATE ccc_checkpoint SET position = 'a0'`, "table ccc_checkpoint is the projector's own"},
		{`INSERT INTO CCC_DONE (name, event_id) VALUES (1, x'00')`, "table ccc_done is the projector's own"},
		{`DELETE FROM main."ccc_epoch"`, "table ccc_epoch is the projector's own"},
		{`REPLACE INTO ccc_lease VALUES (1, 1, '', 1)`, "table ccc_lease is the projector's own"},
		{`WITH x(n) AS (SELECT 1) UPDATE ccc_epoch SET epoch = 0 FROM x`, "table ccc_epoch is the projector's own"},
		{`DROP TABLE ccc_done`, "ccc_done"},
		{`ALTER TABLE ccc_done ADD COLUMN x`, "ccc_done"},
		{`CREATE TABLE ccc_mine (x)`, "choose another one than ccc_mine"},
		{`CREATE INDEX mine ON ccc_done (lane)`, "ccc_done"},
		{`CREATE INDEX ccc_i ON kv (v)`, "ccc_i"},
		{`CREATE TRIGGER mine AFTER UPDATE ON ccc_checkpoint BEGIN DELETE FROM kv; END`, "ccc_checkpoint"},
		{`CREATE VIEW ccc_v AS SELECT 1`, "ccc_v"},
		{`CREATE VIRTUAL TABLE ccc_f USING fts5(x)`, "ccc_f"},
		{`CREATE TEMP TABLE ccc_checkpoint (x)`, "TEMP"},
		{`CREATE TEMP TABLE mine (x)`, "TEMP"},
		{`CREATE TEMP VIEW mine AS SELECT 1`, "TEMP"},
		{`CREATE TEMP TRIGGER mine AFTER UPDATE ON kv BEGIN SELECT 1; END`, "TEMP"},
	} {
		for _, call := range []func(string, ...any) func(*Tx) error{execs, queries} {
			err := handler(t, target, func(x *Tx) error {
				require.NoError(t, x.Exec(`INSERT INTO kv VALUES ('never', '')`))
				return call(c.sql)(x)
			})
			require.ErrorIs(t, err, ErrForbidden, c.sql)
			require.ErrorContains(t, err, c.says, c.sql)
		}
	}
	for _, sql := range []string{`VACUUM`, `VACUUM INTO '` + other + `'`} { // SQLite itself refuses these
		require.ErrorContains(t, handler(t, target, execs(sql)), "cannot VACUUM from within a transaction")
	}
	require.NoFileExists(t, other)
	require.NoError(t, handler(t, target, func(x *Tx) error {
		_, found, err := x.First(`SELECT 1 FROM kv`)
		require.False(t, found)
		return err
	}))
}

// A trigger or a view is no way around.
func TestForbiddenThroughATrigger(t *testing.T) {
	target := newTarget(t)
	require.NoError(t, handler(t, target, execs(`CREATE TRIGGER sly AFTER INSERT ON kv BEGIN UPDATE ccc_epoch SET epoch = 0; END`)))
	require.ErrorIs(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)), ErrForbidden)
}

// Our own statements are prepared unguarded: nobody may get hold of them.
func TestForbiddenWhereWeHavePreparedTheSame(t *testing.T) {
	target := newTarget(t)
	for _, sql := range []string{"BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", sqlRenew, sqlCheckpoint, sqlDone} {
		err := handler(t, target, func(x *Tx) error {
			return x.Exec(sql, make([]any, strings.Count(sql, "?"))...)
		})
		require.ErrorIs(t, err, ErrForbidden, sql)
	}
}

func TestAllowedInHandlers(t *testing.T) {
	target := newTarget(t)
	for _, sql := range []string{
		`CREATE TABLE a (id INTEGER PRIMARY KEY, x REFERENCES kv (k) ON DELETE CASCADE)`, `CREATE INDEX ax ON a (x)`, `ALTER TABLE a ADD COLUMN y`,
		`CREATE VIEW av AS SELECT x FROM a`, `CREATE TRIGGER at AFTER INSERT ON a BEGIN DELETE FROM a WHERE y = 1; END`,
		`INSERT INTO kv VALUES ('k', 'v')`, `INSERT INTO a (x, y) VALUES ('k', 2) RETURNING id`, `UPDATE a SET y = 3; -- and no more`, `ANALYZE`, `REINDEX ax`,
		`SELECT * FROM av`, `SELECT count(*) FROM ccc_checkpoint`, `PRAGMA table_info(a)`, `SELECT * FROM pragma_table_info('a')`, `PRAGMA user_version`,
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 5) INSERT INTO a (y) SELECT i + 10 FROM n`,
		`DROP TRIGGER at`, `DROP VIEW av`, `DROP INDEX ax`, `DROP TABLE a`,
		`CREATE VIRTUAL TABLE f USING fts5(x)`, `INSERT INTO f VALUES ('some words to find')`, `INSERT INTO f (f) VALUES ('optimize')`,
	} {
		require.NoError(t, handler(t, target, execs(sql)), sql)
		if strings.HasPrefix(sql, "SELECT") || strings.HasPrefix(sql, "PRAGMA") {
			require.NoError(t, target.Read(t.Context(), execs(sql)), sql)
		}
	}
	require.NoError(t, target.Read(t.Context(), func(x *Tx) error {
		_, found, err := x.First(`SELECT x FROM f WHERE f MATCH 'words'`)
		require.True(t, found)
		return err
	}))
}

func TestReadRefusesWrites(t *testing.T) {
	target := newTarget(t)
	for _, sql := range []string{
		`INSERT INTO kv VALUES ('a', 'b')`, `UPDATE kv SET v = 'b'`, `DELETE FROM kv`, `CREATE TABLE a (x)`, `DROP TABLE kv`, `CREATE TEMP TABLE a (x)`,
		`COMMIT`, `BEGIN`, `ATTACH 'a' AS a`, `PRAGMA query_only=OFF`, `UPDATE ccc_epoch SET epoch = 7`, `ANALYZE`, `REINDEX kv`,
	} {
		err := target.Read(t.Context(), execs(sql))
		require.ErrorIs(t, err, ErrForbidden, sql)
		require.ErrorIs(t, target.Read(t.Context(), queries(sql)), ErrForbidden, sql)
	}
}

// All queries of a Read show one moment.
func TestReadIsOneMoment(t *testing.T) {
	target := newTarget(t)
	require.NoError(t, target.Read(t.Context(), func(x *Tx) error {
		require.NoError(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)))
		_, found, err := get(x, "a")
		require.False(t, found)
		return err
	}))
	require.Equal(t, "b", read(t, target, "a"))
}

type (
	cents int64
	label string
	thing struct{ X int }
)

// What goes in comes out, exactly.
func TestValues(t *testing.T) {
	target := newTarget(t)
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
	target := newTarget(t)
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
	target := newTarget(t)
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

func TestWrongSQL(t *testing.T) {
	target := newTarget(t)
	require.NoError(t, handler(t, target, func(x *Tx) error {
		for _, c := range []struct {
			sql  string
			args []any
			says string
		}{
			{"", nil, "no statement"}, {" -- nothing\n /* here */ ;", nil, "no statement"},
			{"SELECT 1; SELECT 2", nil, "more than one statement"}, {"SELECT 1; -- and\nDELETE FROM kv", nil, "more than one statement"},
			{"SELEC 1", nil, "syntax error"}, {"SELECT x FROM nowhere", nil, "no such table: nowhere"},
			{"SELECT ?1", nil, "0 values for 1 parameters"}, {"SELECT ?2", []any{1}, "1 values for 2 parameters"}, {"SELECT 1", []any{1}, "1 values for 0 parameters"},
			{"INSERT INTO kv VALUES ('a', NULL)", nil, "NOT NULL constraint failed"},
		} {
			err := x.Exec(c.sql, c.args...)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, fmt.Sprintf("in %.300q", c.sql))
			require.Error(t, queries(c.sql, c.args...)(x))
		}
		require.NoError(t, x.Exec(" \n/* fine */ INSERT INTO kv VALUES ('a', 'b') ; -- yes\n"))
		return nil // what failed has left nothing, the rest goes on
	}))
	require.Equal(t, "b", read(t, target, "a"))
}

// A statement can be used inside its own loop, and the loop can be left early.
func TestQueriesInsideQueries(t *testing.T) {
	target := newTarget(t)
	const all = `SELECT k FROM kv ORDER BY k`
	require.NoError(t, handler(t, target, func(x *Tx) error {
		for _, k := range []string{"a", "b", "c"} {
			require.NoError(t, x.Exec(`INSERT INTO kv VALUES (?1, '')`, k))
		}
		var seen []string
		for outer, err := range x.Query(all) {
			require.NoError(t, err)
			for inner, err := range x.Query(all) {
				require.NoError(t, err)
				var a, b string
				require.NoError(t, errors.Join(outer.Scan(&a), inner.Scan(&b)))
				seen = append(seen, a+b)
				require.NoError(t, x.Exec(`UPDATE kv SET v = v || ?1 WHERE k = ?2`, b, a))
				if b == "b" {
					break
				}
			}
		}
		require.Equal(t, []string{"aa", "ab", "ba", "bb", "ca", "cb"}, seen)
		v, _, err := get(x, "c")
		require.Equal(t, "ab", v)
		return err
	}))
}

// A failing statement that takes the whole transaction with it: nothing of the
// batch may be committed, not even what comes after it.
func TestStatementThatRollsBack(t *testing.T) {
	target := newTarget(t)
	require.NoError(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)))
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	err = target.Apply(t.Context(), claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		x := b.Tx()
		require.NoError(t, x.Exec(`INSERT INTO kv VALUES ('before', '')`))
		require.ErrorIs(t, x.Exec(`INSERT OR ROLLBACK INTO kv VALUES ('a', 'c')`), ErrRolledBack)
		require.ErrorIs(t, x.Exec(`INSERT INTO kv VALUES ('after', '')`), ErrRolledBack)
		require.ErrorIs(t, b.Done(uuid.New()), ErrRolledBack)
		return at(1), nil // the handler does not care
	})
	require.ErrorIs(t, err, ErrRolledBack)
	require.ErrorContains(t, err, "UNIQUE constraint failed")
	require.Empty(t, read(t, target, "before")+read(t, target, "after"))
	require.NoError(t, target.Apply(t.Context(), claim, at(0), put("next", "1", at(1))))
	require.Equal(t, "1", read(t, target, "next"))
}

// A Tx that was kept does no harm, whoever uses it and when.
func TestTxThatWasKept(t *testing.T) {
	target := newTarget(t)
	for round := range 20 {
		var kept *Tx
		var users sync.WaitGroup
		var next func() (Row, error, bool)
		run := target.Read
		if round%2 == 0 {
			run = func(ctx context.Context, h func(*Tx) error) error { return handlerOn(ctx, target, h) }
		}
		require.NoError(t, run(t.Context(), func(x *Tx) error {
			kept = x
			next = pull(x, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n`)
			_, err, ok := next()
			require.True(t, ok)
			require.NoError(t, err)
			for range 4 {
				users.Go(func() {
					for {
						_, _, err := x.First(`SELECT 1`)
						if err != nil {
							if !errors.Is(err, ErrTxOver) {
								t.Error(err)
							}
							return
						}
					}
				})
			}
			return nil
		}))
		users.Wait()
		_, err, ok := next()
		require.True(t, ok)
		require.ErrorIs(t, err, ErrTxOver)
		_, _, ok = next()
		require.False(t, ok)
		require.ErrorIs(t, kept.Exec(`INSERT INTO kv VALUES ('a', 'b')`), ErrTxOver)
		require.ErrorContains(t, queries(`SELECT 1`)(kept), "must not be used after")
	}
}

// A long statement ends with its context, and the target works on.
func TestContextEndsStatements(t *testing.T) {
	target := newTarget(t)
	const forever = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n`
	runs := map[string]func(context.Context, func(*Tx) error) error{
		"handler": func(ctx context.Context, h func(*Tx) error) error { return handlerOn(ctx, target, h) },
		"read":    target.Read,
	}
	for what, run := range runs {
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, func(x *Tx) error {
			go cancel()
			return x.Exec(forever)
		})
		require.ErrorIs(t, err, context.Canceled, what)
	}
	// A handler that does not heed its context is not committed after it.
	ctx, cancel := context.WithCancel(t.Context())
	err := handlerOn(ctx, target, func(x *Tx) error {
		defer cancel()
		return x.Exec(`INSERT INTO kv VALUES ('a', 'late')`)
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, read(t, target, "a"))
	require.NoError(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)))
	require.Equal(t, "b", read(t, target, "a"))
}

// A program that writes values into its SQL does not fill the memory.
func TestManyStatements(t *testing.T) {
	target := newTarget(t)
	require.NoError(t, handler(t, target, func(x *Tx) error {
		for row, err := range x.Query(`SELECT 1 UNION ALL SELECT 2`) { // one that is in use all the while
			require.NoError(t, errors.Join(err, row.Scan(new(int))))
			for i := range 2 * maxStatements {
				require.NoError(t, x.Exec(fmt.Sprint(`SELECT `, i)))
			}
		}
		require.LessOrEqual(t, len(x.s.programs), maxStatements)
		return nil
	}))
}

func newOf(v any) any { return reflect.New(reflect.TypeOf(v)).Interface() }

func elem(p any) any { return reflect.ValueOf(p).Elem().Interface() }

// pull walks over a query from outside of a loop.
func pull(x *Tx, sql string) func() (Row, error, bool) {
	next, _ := iter.Pull2(x.Query(sql))
	return next
}
