package effecttarget_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/google/uuid"
)

// OrderPaid is a fact about an order.
type OrderPaid struct {
	Customer string `json:"customerId"`
}

func (OrderPaid) EventType() string { return "OrderPaid" }

// postOffice sends a letter once per key.
type postOffice map[string]bool

func (p postOffice) Send(key, to string) {
	if !p[key] {
		p[key] = true
		fmt.Println("to", to+":", "thank you")
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "mails")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	events, store, post := event.NewCodec(event.Of[OrderPaid]()), memstore.New(), postOffice{}
	mails := effecttarget.New(effecttarget.File(dir), effecttarget.Config{})
	receipts := projector.New(store, mails, projector.Config{Name: "receipts", Events: events},
		func(_ context.Context, tx *effecttarget.Tx, d projector.Delivery) error {
			if e, ok := d.Event.(OrderPaid); ok && !d.Replay {
				post.Send(tx.Key(d), e.Customer)
			}
			return nil
		})
	ended := make(chan error)
	go func() { ended <- receipts.Run(ctx) }()

	for _, customer := range []string{"ada", "bob"} {
		data, _, err := events.Encode(OrderPaid{customer}, uuid.Nil)
		if err != nil {
			log.Fatal(err)
		}
		paid, err := store.Append(ctx, []event.Record{{ID: uuid.New(), Type: "OrderPaid", Data: data}}, nil)
		if err != nil {
			log.Fatal(err)
		}
		if err := receipts.WaitFor(ctx, paid.Positions[0]); err != nil {
			log.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	if err := mails.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(post), "letters")
	// Output:
	// to ada: thank you
	// to bob: thank you
	// 2 letters
}
