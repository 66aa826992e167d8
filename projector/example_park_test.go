package projector_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
)

var errNoAccount = errors.New("no such account")

// Parking puts an event that cannot be applied aside, with what belongs to the
// same account behind it; other accounts go on.
func Example_parked() {
	ctx, stop := context.WithCancel(context.Background())
	store, model := memstore.New(), memtarget.New[int64]()
	cfg := projector.Config{
		Name: "balances", Events: ledger,
		Keys: projector.DataKeys("accountId"),
		Failures: projector.Policy{
			Then: projector.Park,
			Judge: func(err error) projector.Rule {
				if errors.Is(err, errNoAccount) {
					return projector.Rule{Attempts: 1} // it will not get better by itself
				}
				return projector.Rule{}
			},
		},
	}
	var eve atomic.Bool
	balances := projector.New(store, model, cfg, func(ctx context.Context, tx *memtarget.Tx[int64], d projector.Delivery) error {
		if d.Event.(Posted).Account == "eve" && !eve.Load() {
			return errNoAccount
		}
		return balance(ctx, tx, d)
	})
	ended := make(chan error)
	go func() { ended <- balances.Run(ctx) }()

	at := post(ctx, store, Posted{"ada", 100}, Posted{"eve", 1}, Posted{"ada", -30}, Posted{"eve", 2})
	err := balances.WaitFor(ctx, at)
	fmt.Println("all:", errors.Is(err, projector.ErrParked))
	err = balances.WaitFor(ctx, at, projector.DataKey("accountId", "ada"))
	fmt.Println("ada:", err)

	parked, err := balances.Parked(ctx, projector.ParkedQuery{})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range parked {
		fmt.Printf("%s, failed: %t, %q\n", p.Keys, p.Failed, p.Error)
	}

	eve.Store(true) // the cause is corrected
	asked, err := balances.Retry(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("asked for", asked, "and then:", balances.WaitFor(ctx, at))
	cents, _ := model.Get("eve")
	fmt.Println("eve has", cents)
	stop()
	<-ended
	// Output:
	// all: true
	// ada: <nil>
	// [accountId=eve], failed: true, "no such account"
	// [accountId=eve], failed: false, ""
	// asked for 1 and then: <nil>
	// eve has 3
}
