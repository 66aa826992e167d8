package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/cccgo/ccc/projector/sqlitetarget"
)

// readModel shows the balances of the open accounts. A projector keeps it.
type readModel interface {
	Check(context.Context) error
	Run(context.Context) error
	WaitFor(context.Context, consistency.Position, ...string) error
	Lag(context.Context) (projector.Lag, error)
	// each calls show for each open account, in the order of the names' bytes,
	// as of one moment.
	each(ctx context.Context, show func(account string, balance int64) error) error
	close() error
}

func openModel(store eventstore.Store, p place, logger *slog.Logger) (readModel, error) {
	cfg := projector.Config{Name: "balances", Events: events, Logger: logger}
	if p.model == "" {
		return inMemory(store, cfg), nil
	}
	return inFile(store, cfg, p.model)
}

// fileModel is for logs that stay. It has a file of its own, so that a projector
// that stands still never holds up a command.
type fileModel struct {
	*projector.Projector[*sqlitetarget.Tx]
	target *sqlitetarget.Target
}

const tables = `
CREATE TABLE balance (      -- of open accounts
	account TEXT PRIMARY KEY,
	balance INTEGER NOT NULL
) STRICT, WITHOUT ROWID`

func inFile(store eventstore.Store, cfg projector.Config, file string) (readModel, error) {
	target, err := sqlitetarget.Open(file, tables)
	if err != nil {
		return nil, err
	}
	return fileModel{projector.New(store, target, cfg, func(_ context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
		name := about(d.Event)
		if a := (Account{}).Evolve(d.Event); !a.Closed {
			return tx.Exec(`INSERT INTO balance VALUES (?1, ?2) ON CONFLICT DO UPDATE SET balance = ?2`, name, a.Balance)
		}
		return tx.Exec(`DELETE FROM balance WHERE account = ?1`, name)
	}), target}, nil
}

func (m fileModel) each(ctx context.Context, show func(string, int64) error) error {
	return m.target.Read(ctx, func(tx *sqlitetarget.Tx) error {
		for row, err := range tx.Query(`SELECT account, balance FROM balance ORDER BY account`) {
			var account string
			var balance int64
			if err == nil {
				err = row.Scan(&account, &balance)
			}
			if err == nil {
				err = show(account, balance)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (m fileModel) close() error { return m.target.Close() }

// memoryModel is for logs in memory.
type memoryModel struct {
	*projector.Projector[*memtarget.Tx[int64]]
	target *memtarget.Target[int64]
}

func inMemory(store eventstore.Store, cfg projector.Config) readModel {
	target := memtarget.New[int64]()
	return memoryModel{projector.New(store, target, cfg, func(_ context.Context, tx *memtarget.Tx[int64], d projector.Delivery) error {
		name := about(d.Event)
		if a := (Account{}).Evolve(d.Event); a.Closed {
			tx.Delete(name)
		} else {
			tx.Put(name, a.Balance)
		}
		return nil
	}), target}
}

func (m memoryModel) each(_ context.Context, show func(string, int64) error) error {
	for account, balance := range m.target.All() {
		if err := show(account, balance); err != nil {
			return err
		}
	}
	return nil
}

func (m memoryModel) close() error { return nil }

// foreign puts both places into an error that says the model is not the log's.
func (p place) foreign(err error) error {
	if !errors.Is(err, projector.ErrForeignLog) {
		return err
	}
	return fmt.Errorf("%s holds the balances of another log than %s: put back the log that they were made from, "+
		"or delete %s (with %s-wal and %s-shm, if they are there) and run again to make them anew (%w)",
		p.model, p.Name, p.model, p.model, p.model, err)
}
