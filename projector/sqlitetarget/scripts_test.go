package sqlitetarget

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScripts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	const one = `
		-- balances; of all accounts
		CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER); /* and ; a
		comment */ CREATE INDEX by_cents ON balance (cents);;
		INSERT INTO balance VALUES ('bank; trust', 7);
	`
	const two, three = `ALTER TABLE balance ADD COLUMN owner TEXT`, `UPDATE balance SET owner = 'us';`
	opens := func(scripts ...string) error {
		target, err := Open(path, scripts...)
		if err == nil {
			err = target.Close()
		}
		return err
	}
	require.NoError(t, opens(one))
	require.NoError(t, opens(one, two, three))
	require.NoError(t, opens(one, two, three))
	require.NoError(t, opens("\n"+one+"  ", two, three+"\n"), "blanks around do not count")
	require.NoError(t, opens(), "without scripts the file is taken as it is")

	target, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, target.Read(t.Context(), func(x *Tx) error {
		var rows int
		for row, err := range x.Query(`SELECT account, cents, owner FROM balance`) {
			require.NoError(t, err)
			var account, owner string
			var cents int64
			require.NoError(t, row.Scan(&account, &cents, &owner))
			require.Equal(t, []any{"bank; trust", int64(7), "us"}, []any{account, cents, owner})
			rows++
		}
		require.Equal(t, 1, rows, "each script has run once")
		return nil
	}))
	require.NoError(t, target.Close())

	err = opens(one, `ALTER TABLE balance ADD COLUMN keeper TEXT`, three)
	require.ErrorIs(t, err, ErrScriptChanged)
	require.ErrorContains(t, err, "schema script 2, run on ")
	require.ErrorContains(t, err, `had "ALTER TABLE balance ADD COLUMN owner TEXT" in line 1, now it is "ALTER TABLE balance ADD COLUMN keeper TEXT"`)
	require.ErrorContains(t, err, "bring the change in a further script")
	require.ErrorIs(t, opens(one+"SELECT 1", two, three), ErrScriptChanged)
	require.ErrorIs(t, opens(two, one, three), ErrScriptChanged, "another order")
	require.ErrorContains(t, opens(one, two, three+"\nSELECT 1"), `ended before line 2, which is now "SELECT 1"`)
	require.Equal(t, `had a line 2, "b", which is missing now`, difference("a\nb\nc", "a"))
	err = opens(one, two)
	require.ErrorIs(t, err, ErrNewerSchema)
	require.ErrorContains(t, err, "3 schema scripts were run on it, this program has 2")
	require.NoError(t, opens(one, two, three))
}

// A script that fails leaves nothing, nor do those before it.
func TestScriptsThatFail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	for _, c := range []struct {
		script, says string
		is           error
	}{
		{`CREATE TABLE b (x); CREATE TABLE a (x)`, "script 2: nothing of it is kept: sqlite: prepare: 1:14: SQL logic error: table a already exists", nil},
		{`CREATE TABLE b (x); SELEC`, "syntax error", nil},
		{`CREATE TABLE b (x); COMMIT`, "COMMIT", ErrForbidden},
		{`CREATE TABLE b (x); CREATE TABLE ccc_b (x)`, "ccc_b", ErrForbidden},
		{`CREATE TABLE b (x); PRAGMA journal_mode=delete`, "journal_mode", ErrForbidden},
		{`CREATE TABLE b (x); ATTACH 'x' AS x`, "ATTACH", ErrForbidden},
		{`CREATE TABLE b (x); INSERT INTO b VALUES (?1)`, "no parameters", nil},
		{`CREATE TABLE b (x UNIQUE); INSERT INTO b VALUES (1); INSERT OR ROLLBACK INTO b VALUES (1); CREATE TABLE c (x)`, "UNIQUE", ErrRolledBack},
	} {
		target, err := Open(path, `CREATE TABLE a (x)`, c.script)
		require.Nil(t, target)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, path)
		if c.is != nil {
			require.ErrorIs(t, err, c.is)
		}
	}
	target, err := Open(path, `CREATE TABLE a (x)`, `CREATE TABLE b (x)`, `CREATE TABLE c (x)`)
	require.NoError(t, err)
	require.NoError(t, target.Close())
}
