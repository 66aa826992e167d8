package memtarget_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
)

// SeatTaken is a fact about a course.
type SeatTaken struct {
	Course string `json:"courseId"`
}

func (SeatTaken) EventType() string { return "SeatTaken" }

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	events, store, model := event.NewCodec(event.Of[SeatTaken]()), memstore.New(), memtarget.New[int]()
	seats := projector.New(store, model, projector.Config{Name: "seats", Events: events},
		func(_ context.Context, tx *memtarget.Tx[int], d projector.Delivery) error {
			if e, ok := d.Event.(SeatTaken); ok {
				taken, _ := tx.Get(e.Course)
				tx.Put(e.Course, taken+1)
			}
			return nil
		})
	ended := make(chan error)
	go func() { ended <- seats.Run(ctx) }()

	data, _, err := events.Encode(SeatTaken{"go"}, uuid.Nil)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := store.Append(ctx, []event.Record{{ID: uuid.New(), Type: "SeatTaken", Data: data}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := seats.WaitFor(ctx, receipt.Positions[0]); err != nil {
		log.Fatal(err)
	}
	taken, _ := model.Get("go")
	fmt.Println(taken, "of", model.Len(), "course")
	stop()
	<-ended
	// Output: 1 of 1 course
}
