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
	"github.com/cccgo/ccc/projector/progress"
	"github.com/cccgo/ccc/projector/sqlitetarget"
)

const schema = `CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER NOT NULL)`

// forgetful is what an earlier version of the program did.
func forgetful(ctx context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
	if p, ok := d.Event.(Posted); ok && p.Cents < 0 {
		return nil // withdrawals were forgotten
	}
	return projectBalance(ctx, tx, d)
}

// A corrected handler: the model is built anew beside the live one, compared
// with it, and becomes the live one.
func Example_rebuild() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	model, err := sqlitetarget.Open(filepath.Join(dir, "balances.db"), schema)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	ctx, stop := context.WithCancel(context.Background())
	store := memstore.New() // elsewhere a log that lasts
	receipt, err := store.Append(ctx, []event.Record{record(Posted{"ada", 100}), record(Posted{"bob", 50}), record(Posted{"ada", -30})}, nil)
	if err != nil {
		log.Fatal(err)
	}
	cfg := projector.Config{Name: "balances", Events: events}
	was := projector.New(store, model, cfg, forgetful)
	ended := make(chan error)
	go func() { ended <- was.Run(ctx) }()
	if err := was.WaitFor(ctx, receipt.Positions[2]); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ada", balanceOf(ctx, model, "ada"))

	balances := projector.New(store, model, cfg, projectBalance)
	rebuilt, err := projector.Rebuild(ctx, model, projector.RebuildConfig[*sqlitetarget.Tx]{
		Tag:      "withdrawals count",
		Progress: progress.To(os.Stderr),
		Accept: func(found []projector.Difference) error {
			for _, d := range found {
				fmt.Printf("%s: %d rows go, %d rows come\n", d.Table, d.Live, d.Next)
			}
			return nil // as intended
		},
	}, balances)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ada", balanceOf(ctx, model, "ada"), rebuilt.Switched)

	dropped, err := model.Drop(ctx) // once nobody wants the old one back
	fmt.Println(dropped, "dropped,", err)
	stop()
	<-ended
	// Output:
	// ada 100
	// balance: 1 rows go, 1 rows come
	// ada 70 true
	// 1 dropped, <nil>
}

func balanceOf(ctx context.Context, model *sqlitetarget.Target, account string) (cents int64) {
	err := model.Read(ctx, func(tx *sqlitetarget.Tx) error {
		row, found, err := tx.First(`SELECT cents FROM balance WHERE account = ?1`, account)
		if found {
			err = row.Scan(&cents)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	return cents
}
