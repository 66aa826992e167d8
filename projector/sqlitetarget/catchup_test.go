package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
)

// BenchmarkCatchUp reads a log of 100,000 events of 1,000 keys into a file, and,
// in turns with it, once more with one of the keys parked, and a bare loop of the
// same batches: read, decode, and the same statements with the bare library.
// "of-bare-loop" is the rate as a part of the bare loop's, "parked-of-none" that
// with a parked key as a part of that without.
func BenchmarkCatchUp(b *testing.B) {
	const events, keys, batch = 100_000, 1000, 500
	codec := event.NewCodec(event.Of[counted]())
	store := memstore.New()
	var last consistency.Position
	for i := 0; i < events; i += 1000 {
		records := make([]event.Record, 1000)
		for j := range records {
			e := counted{fmt.Sprint("account-", (i+j)*7919%keys)}
			data, version, err := codec.Encode(e, uuid.Nil)
			require.NoError(b, err)
			records[j] = event.Record{ID: uuid.New(), Type: e.EventType(), Data: data, Metadata: event.Metadata{Version: version}}
		}
		receipt, err := store.Append(context.Background(), records, nil)
		require.NoError(b, err)
		last = receipt.Positions[999]
	}
	const schema = `CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER)`
	dir := b.TempDir()
	n := 0
	fresh := func() *Target {
		n++
		target, err := Open(filepath.Join(dir, fmt.Sprint(n, ".db")), schema)
		require.NoError(b, err)
		return target
	}
	framework := func(parked bool) time.Duration {
		target := fresh()
		defer target.Close()
		cfg := projector.Config{Name: testName.Projector, Events: codec, BatchSize: batch, Keys: projector.DataKeys("key"), Failures: projector.Policy{Attempts: 1, Then: projector.Park}}
		p := projector.New(store, target, cfg, func(_ context.Context, x *Tx, d projector.Delivery) error {
			if key := d.Event.(counted).Key; !parked || key != "account-7" {
				return x.Exec(sqlAdd, key, 1)
			}
			return errors.New("not this one")
		})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- p.Run(ctx) }()
		require.NoError(b, p.WaitFor(ctx, last, "key=account-8"))
		took := time.Since(began)
		stop()
		require.NoError(b, <-ended)
		s, err := target.State(b.Context(), testName)
		require.NoError(b, err)
		if parked {
			require.Equal(b, events/keys, s.Parked)
		}
		return took
	}
	bare := func() time.Duration {
		target := fresh()
		defer target.Close()
		_, err := target.Claim(b.Context(), testName)
		require.NoError(b, err)
		conn := raw(b, target.file.path)
		began := time.Now()
		require.NoError(b, bareCatchUp(conn, store, codec, batch))
		return time.Since(began)
	}
	var inBare, in, inParked time.Duration
	for b.Loop() {
		inBare += bare()
		in += framework(false)
		inParked += framework(true)
	}
	b.ReportMetric(float64(b.N)*events/in.Seconds(), "events/s")
	b.ReportMetric(inBare.Seconds()/in.Seconds(), "of-bare-loop")
	b.ReportMetric(in.Seconds()/inParked.Seconds(), "parked-of-none")
	b.ReportMetric(0, "ns/op")
}

func bareCatchUp(conn *sqlite.Conn, store eventstore.Store, codec *event.Codec, batch int) error {
	query := consistency.All().Type("Counted")
	for at := (projector.Checkpoint{}); ; {
		page, err := store.Page(context.Background(), query, at.Position, batch)
		if err != nil || !page.UpTo.After(at.Position) {
			return err
		}
		if err := sqlitedb.Begin(context.Background(), conn, time.Second); err != nil {
			return err
		}
		for _, r := range page.Records {
			e, err := codec.Decode(r)
			if err != nil {
				return err
			}
			add, err := conn.Prepare(sqlAdd)
			if err != nil {
				return err
			}
			add.BindText(1, e.(counted).Key)
			add.BindInt64(2, 1)
			if _, err := add.Step(); err != nil {
				return err
			}
		}
		at = projector.Checkpoint{Position: page.UpTo, EventID: page.UpToID}
		if err := bareMove(conn, 1, at); err != nil {
			return err
		}
		if err := sqlitedb.Commit(conn); err != nil {
			return err
		}
	}
}

// BenchmarkIsParked is the price of one question of a batch.
func BenchmarkIsParked(b *testing.B) {
	for _, parked := range []int{1, maxLoaded, maxLoaded + 1} {
		b.Run(fmt.Sprint("parked=", parked), func(b *testing.B) {
			target, err := Open(filepath.Join(b.TempDir(), "model.db"), schemaKV)
			require.NoError(b, err)
			defer target.Close()
			claim, err := target.Claim(b.Context(), testName)
			require.NoError(b, err)
			ask := func(work func(projector.Batch[*Tx]) error) {
				require.NoError(b, target.Apply(b.Context(), claim, projector.Checkpoint{}, func(x projector.Batch[*Tx]) (projector.Checkpoint, error) {
					return projector.Checkpoint{}, work(x)
				}))
			}
			ask(func(x projector.Batch[*Tx]) error {
				for i := range parked {
					if err := x.Park(parkedAt(uint64(i+1), fmt.Sprint("k", i))); err != nil {
						return err
					}
				}
				return nil
			})
			ask(func(x projector.Batch[*Tx]) error {
				keys := []string{"other"}
				for b.Loop() {
					if _, err := x.IsParked(keys); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkCompare compares two tables of a million rows.
func BenchmarkCompare(b *testing.B) {
	for _, differ := range []string{"nothing", "ten rows", "every row"} {
		b.Run(differ, func(b *testing.B) {
			const rows = 1_000_000
			target, err := Open(filepath.Join(b.TempDir(), "model.db"), `CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER)`)
			require.NoError(b, err)
			defer target.Close()
			g, err := target.Next(b.Context(), "a")
			require.NoError(b, err)
			defer g.Close()
			for i, to := range []projector.Target[*Tx]{target, g} {
				claim, err := to.Claim(b.Context(), testName)
				require.NoError(b, err)
				require.NoError(b, to.Apply(b.Context(), claim, at(0), func(x projector.Batch[*Tx]) (projector.Checkpoint, error) {
					less := map[string]int{"every row": rows, "ten rows": 10}[differ] * i
					return at(0), x.Tx().Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
						INSERT INTO balance SELECT 'account-' || i, i * 7 - (i <= ?2) FROM n`, rows, less)
				}))
				require.NoError(b, to.Release(b.Context(), claim))
			}
			for b.Loop() {
				found, err := g.Compare(b.Context())
				require.NoError(b, err)
				require.Equal(b, differ == "nothing", len(found) == 0)
			}
		})
	}
}
