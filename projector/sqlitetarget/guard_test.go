package sqlitetarget

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a handler must not do is refused, and so is its batch.
func TestForbiddenInHandlers(t *testing.T) {
	target := fresh(t)
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
	target := fresh(t)
	require.NoError(t, handler(t, target, execs(`CREATE TRIGGER sly AFTER INSERT ON kv BEGIN UPDATE ccc_epoch SET epoch = 0; END`)))
	require.ErrorIs(t, handler(t, target, execs(`INSERT INTO kv VALUES ('a', 'b')`)), ErrForbidden)
}

// Our own statements are prepared unguarded: nobody may get hold of them.
func TestForbiddenWhereWeHavePreparedTheSame(t *testing.T) {
	target := fresh(t)
	for _, sql := range []string{"BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", sqlRenew, sqlCheckpoint, sqlDone} {
		err := handler(t, target, func(x *Tx) error {
			return x.Exec(sql, make([]any, strings.Count(sql, "?"))...)
		})
		require.ErrorIs(t, err, ErrForbidden, sql)
	}
}

func TestAllowedInHandlers(t *testing.T) {
	target := fresh(t)
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
	target := fresh(t)
	for _, sql := range []string{
		`INSERT INTO kv VALUES ('a', 'b')`, `UPDATE kv SET v = 'b'`, `DELETE FROM kv`, `CREATE TABLE a (x)`, `DROP TABLE kv`, `CREATE TEMP TABLE a (x)`,
		`COMMIT`, `BEGIN`, `ATTACH 'a' AS a`, `PRAGMA query_only=OFF`, `UPDATE ccc_epoch SET epoch = 7`, `ANALYZE`, `REINDEX kv`,
	} {
		err := target.Read(t.Context(), execs(sql))
		require.ErrorIs(t, err, ErrForbidden, sql)
		require.ErrorIs(t, target.Read(t.Context(), queries(sql)), ErrForbidden, sql)
	}
}
