package sqlitetarget

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

const sqlAdd = `INSERT INTO balance VALUES (?1, ?2) ON CONFLICT DO UPDATE SET cents = cents + ?2`

// BenchmarkApply writes batches through a target and, in turns with it, the same
// statements with the bare library into another file. "x-bare" is the rate of
// the target as a part of the bare one's.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 50, 500} {
		b.Run(fmt.Sprint("rows=", size), func(b *testing.B) {
			dir := b.TempDir()
			const schema = `CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER)`
			target, err := Open(filepath.Join(dir, "target.db"), schema)
			require.NoError(b, err)
			defer target.Close()
			claim, err := target.Claim(b.Context(), testName)
			require.NoError(b, err)
			bare, err := Open(filepath.Join(dir, "bare.db"), schema)
			require.NoError(b, err)
			defer bare.Close()
			_, err = bare.Claim(b.Context(), testName)
			require.NoError(b, err)
			conn := raw(b, bare.file.path)

			accounts := make([]string, 10_000)
			for i := range accounts {
				accounts[i] = fmt.Sprint("account-", i*7919%len(accounts))
			}
			var inTarget, inBare time.Duration
			n := uint64(0)
			for b.Loop() {
				batch := accounts[n%uint64(len(accounts)/size)*uint64(size):][:size]
				began := time.Now()
				err := target.Apply(b.Context(), claim, at(n), func(batched projector.Batch[*Tx]) (projector.Checkpoint, error) {
					x := batched.Tx()
					for i, account := range batch {
						if err := x.Exec(sqlAdd, account, int64(i)); err != nil {
							return at(n), err
						}
					}
					return at(n + 1), nil
				})
				inTarget += time.Since(began)
				require.NoError(b, err)

				began = time.Now()
				err = bareBatch(conn, batch, at(n+1))
				inBare += time.Since(began)
				require.NoError(b, err)
				n++
			}
			b.ReportMetric(float64(n)*float64(size)/inTarget.Seconds(), "rows/s")
			b.ReportMetric(inBare.Seconds()/inTarget.Seconds(), "x-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func bareBatch(conn *sqlite.Conn, batch []string, to projector.Checkpoint) error {
	if err := sqlitedb.Begin(context.Background(), conn, time.Second); err != nil {
		return err
	}
	kept, err := conn.Prepare(sqlKept)
	if err != nil {
		return err
	}
	kept.BindText(1, testName.Projector)
	kept.BindText(2, testName.Boundary)
	if _, err := kept.Step(); err != nil {
		return err
	}
	id := kept.ColumnInt64(0)
	if err := kept.Reset(); err != nil {
		return err
	}
	for i, account := range batch {
		add, err := conn.Prepare(sqlAdd)
		if err != nil {
			return err
		}
		add.BindText(1, account)
		add.BindInt64(2, int64(i))
		if _, err := add.Step(); err != nil {
			return err
		}
	}
	if err := bareMove(conn, id, to); err != nil {
		return err
	}
	return sqlitedb.Commit(conn)
}

func bareMove(conn *sqlite.Conn, id int64, to projector.Checkpoint) error {
	move, err := conn.Prepare(sqlCheckpoint)
	if err != nil {
		return err
	}
	move.BindInt64(1, id)
	move.BindText(2, to.Position.String())
	move.BindBytes(3, to.EventID[:])
	move.BindBytes(4, to.Log[:])
	move.BindInt64(5, time.Now().UnixMicro())
	move.BindInt64(6, 0)
	move.BindInt64(7, 0)
	_, err = move.Step()
	return err
}

// BenchmarkState is what a standby and a WaitFor do again and again.
func BenchmarkState(b *testing.B) {
	path := filepath.Join(b.TempDir(), "model.db")
	owner, err := Open(path, schemaKV)
	require.NoError(b, err)
	defer owner.Close()
	standby, err := Open(path, schemaKV)
	require.NoError(b, err)
	defer standby.Close()
	_, err = owner.Claim(b.Context(), testName)
	require.NoError(b, err)
	for what, target := range map[string]*Target{"owner": owner, "standby": standby} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				_, err := target.State(b.Context(), testName)
				require.NoError(b, err)
			}
		})
	}
	b.Run("claim-in-vain", func(b *testing.B) {
		for b.Loop() {
			_, err := standby.Claim(b.Context(), testName)
			require.ErrorIs(b, err, projector.ErrHeld)
		}
	})
}
