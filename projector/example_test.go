package projector_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
)

// Posted says that an amount was posted to an account.
type Posted struct {
	Account string `json:"accountId"`
	Cents   int64  `json:"cents,string"`
}

func (Posted) EventType() string { return "MoneyPosted" }

var ledger = event.NewCodec(event.Of[Posted]())

// balance is the handler of a read model: account to balance.
func balance(_ context.Context, tx *memtarget.Tx[int64], d projector.Delivery) error {
	if e, ok := d.Event.(Posted); ok {
		was, _ := tx.Get(e.Account)
		tx.Put(e.Account, was+e.Cents)
	}
	return nil
}

// post writes events as a command would; package command does it in programs.
func post(ctx context.Context, store *memstore.Store, events ...event.Event) consistency.Position {
	var records []event.Record
	for _, e := range events {
		data, version, err := ledger.Encode(e, uuid.Nil)
		if err != nil {
			log.Fatal(err)
		}
		records = append(records, event.Record{ID: uuid.New(), Type: e.EventType(), Data: data, Metadata: event.Metadata{Version: version}})
	}
	receipt, err := store.Append(ctx, records, nil)
	if err != nil {
		log.Fatal(err)
	}
	return receipt.Positions[len(records)-1]
}

// A read model in memory: run the projector, write, wait for it, read.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store, model := memstore.New(), memtarget.New[int64]()
	balances := projector.New(store, model, projector.Config{Name: "balances", Events: ledger}, balance)
	ended := make(chan error)
	go func() { ended <- balances.Run(ctx) }()

	at := post(ctx, store, Posted{"ada", 100}, Posted{"bob", 50}, Posted{"ada", -30})
	if err := balances.WaitFor(ctx, at); err != nil {
		log.Fatal(err)
	}
	for account, cents := range model.All() {
		fmt.Println(account, cents)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// ada 70
	// bob 50
	// <nil>
}

// An event that cannot be applied halts the projector, and WaitFor says why.
func Example_halted() {
	ctx, stop := context.WithCancel(context.Background())
	store, model := memstore.New(), memtarget.New[int64]()
	cfg := projector.Config{Name: "balances", Events: ledger, Failures: projector.Policy{Attempts: 2, FirstDelay: time.Millisecond}}
	balances := projector.New(store, model, cfg, func(ctx context.Context, tx *memtarget.Tx[int64], d projector.Delivery) error {
		if d.Event.(Posted).Account == "eve" {
			return fmt.Errorf("no such account")
		}
		return balance(ctx, tx, d)
	})
	ended := make(chan error)
	go func() { ended <- balances.Run(ctx) }()

	at := post(ctx, store, Posted{"ada", 100}, Posted{"eve", 1})
	err := balances.WaitFor(ctx, at)
	lag, _ := balances.Lag(ctx)
	fmt.Println(lag.Failure.Type, lag.Failure.Attempts, lag.Failure.Error)
	stop()
	fmt.Println(<-ended, err != nil)
	// Output:
	// MoneyPosted 2 no such account
	// <nil> true
}
