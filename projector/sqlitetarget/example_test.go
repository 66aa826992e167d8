package sqlitetarget_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/sqlitetarget"
	"github.com/google/uuid"
)

type Posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"`
}

func (Posted) EventType() string { return "MoneyPosted" }

var events = event.NewCodec(event.Of[Posted]())

func record(e event.Event) event.Record {
	data, version, err := events.Encode(e, uuid.Nil)
	if err != nil {
		log.Fatal(err)
	}
	return event.Record{ID: uuid.New(), Type: e.EventType(), Data: data, Metadata: event.Metadata{Version: version}}
}

func projectBalance(_ context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
	if p, ok := d.Event.(Posted); ok {
		return tx.Exec(`INSERT INTO balance VALUES (?1, ?2) ON CONFLICT DO UPDATE SET cents = cents + ?2`, p.Account, p.Cents)
	}
	return nil
}

// A model of balances is kept in a file and queried.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	model, err := sqlitetarget.Open(filepath.Join(dir, "balances.db"),
		`CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER NOT NULL)`)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()

	store := memstore.New() // elsewhere a log that lasts
	receipt, err := store.Append(context.Background(),
		[]event.Record{record(Posted{"ada", 100}), record(Posted{"bob", 50}), record(Posted{"ada", -30})}, nil)
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	balances := projector.New(store, model, projector.Config{Name: "balances", Events: events}, projectBalance)
	ended := make(chan error)
	go func() { ended <- balances.Run(ctx) }()

	if err := balances.WaitFor(ctx, receipt.Positions[2]); err != nil {
		log.Fatal(err)
	}
	err = model.Read(ctx, func(tx *sqlitetarget.Tx) error {
		for row, err := range tx.Query(`SELECT account, cents FROM balance ORDER BY account`) {
			var account string
			var cents int64
			if err == nil {
				err = row.Scan(&account, &cents)
			}
			if err != nil {
				return err
			}
			fmt.Println(account, cents)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// ada 70
	// bob 50
}
