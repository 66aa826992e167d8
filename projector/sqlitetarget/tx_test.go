package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"sync"
	"testing"

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

func fresh(t *testing.T) *Target {
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

// All queries of a Read show one moment.
func TestReadIsOneMoment(t *testing.T) {
	target := fresh(t)
	require.NoError(t, target.Read(t.Context(), func(x *Tx) error {
		require.NoError(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)))
		_, found, err := get(x, "a")
		require.False(t, found)
		return err
	}))
	require.Equal(t, "b", read(t, target, "a"))
}

func TestWrongSQL(t *testing.T) {
	target := fresh(t)
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
	target := fresh(t)
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
	target := fresh(t)
	require.NoError(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)))
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	err = target.Apply(t.Context(), claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
		x := b.Tx()
		require.NoError(t, x.Exec(`INSERT INTO kv VALUES ('before', '')`))
		require.ErrorIs(t, x.Exec(`INSERT OR ROLLBACK INTO kv VALUES ('a', 'c')`), ErrRolledBack)
		require.ErrorIs(t, x.Exec(`INSERT INTO kv VALUES ('after', '')`), ErrRolledBack)
		require.ErrorIs(t, b.Done(uuid.New(), at(1).Position), ErrRolledBack)
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
	target := fresh(t)
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
	target := fresh(t)
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
	target := fresh(t)
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

// pull walks over a query from outside of a loop.
func pull(x *Tx, sql string) func() (Row, error, bool) {
	next, _ := iter.Pull2(x.Query(sql))
	return next
}
