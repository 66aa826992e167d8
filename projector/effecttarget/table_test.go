package effecttarget_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// table is a Keeper in a table of the user's own. The database's clock is now.
type table struct{ db *sqlitex.Pool }

const schema = `CREATE TABLE IF NOT EXISTS bookkeeping (projector TEXT, boundary TEXT, version INTEGER NOT NULL, doc BLOB NOT NULL, PRIMARY KEY (projector, boundary))`

func (t table) Load(ctx context.Context, n projector.Name) (doc []byte, version int64, now time.Time, err error) {
	db, err := t.db.Take(ctx)
	if err != nil {
		return nil, 0, now, err
	}
	defer t.db.Put(db)
	err = sqlitex.Execute(db, `SELECT unixepoch('subsec'), version, doc FROM (SELECT 1) LEFT JOIN bookkeeping ON projector = ?1 AND boundary = ?2`,
		&sqlitex.ExecOptions{Args: []any{n.Projector, n.Boundary}, ResultFunc: func(row *sqlite.Stmt) error {
			now, version = time.UnixMilli(int64(row.ColumnFloat(0)*1000)), row.ColumnInt64(1)
			if version > 0 {
				doc = make([]byte, row.ColumnLen(2))
				row.ColumnBytes(2, doc)
			}
			return nil
		}})
	return doc, version, now, err
}

func (t table) Save(ctx context.Context, n projector.Name, doc []byte, version int64) error {
	db, err := t.db.Take(ctx)
	if err != nil {
		return err
	}
	defer t.db.Put(db)
	save := `UPDATE bookkeeping SET doc = ?3, version = ?4 + 1 WHERE projector = ?1 AND boundary = ?2 AND version = ?4`
	if version == 0 {
		save = `INSERT INTO bookkeeping (projector, boundary, doc, version) VALUES (?1, ?2, ?3, ?4 + 1) ON CONFLICT DO NOTHING`
	}
	err = sqlitex.Execute(db, save, &sqlitex.ExecOptions{Args: []any{n.Projector, n.Boundary, doc, version}})
	if err == nil && db.Changes() == 0 {
		err = effecttarget.ErrChanged
	}
	return err
}

func openTable(t testing.TB, path string) table {
	db, err := sqlitex.NewPool(path, sqlitex.PoolOptions{PoolSize: 4, PrepareConn: func(c *sqlite.Conn) error {
		c.SetBusyTimeout(10 * time.Second)
		return sqlitex.ExecuteScript(c, schema, nil)
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(db.Close())) })
	return table{db}
}
