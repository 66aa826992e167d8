package reaction_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/cccgo/ccc/projector/reaction"
)

// CourseFilled leads to WaitingListOpened.
type (
	CourseFilled struct {
		Course string `json:"courseId"`
	}
	WaitingListOpened struct {
		Course string `json:"courseId"`
	}
)

func (CourseFilled) EventType() string      { return "CourseFilled" }
func (WaitingListOpened) EventType() string { return "WaitingListOpened" }

var (
	facts = event.NewCodec(event.Of[CourseFilled](), event.Of[WaitingListOpened]())
	lists = command.NewModel(facts, func(open bool, e event.Event) bool {
		_, opens := e.(WaitingListOpened)
		return open || opens
	})
)

// Fill says that a course is full.
type Fill struct{ Course string }

func (Fill) CommandName() string                  { return "fill" }
func (Fill) Context() command.View[bool]          { return lists.None() }
func (c Fill) Decide(bool) ([]event.Event, error) { return []event.Event{CourseFilled{c.Course}}, nil }

// OpenWaitingList is what follows from it.
type OpenWaitingList struct{ Course string }

func (OpenWaitingList) CommandName() string { return "open waiting list" }
func (c OpenWaitingList) Context() command.View[bool] {
	return lists.History(consistency.Where("courseId", c.Course))
}

func (c OpenWaitingList) Decide(open bool) ([]event.Event, error) {
	if open {
		return nil, nil
	}
	return []event.Event{WaitingListOpened{c.Course}}, nil
}

// A full course opens a waiting list.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store := memstore.New()
	runner := command.NewRunner(store, command.Config{})
	waitingLists := projector.New(store, memtarget.New[int](), projector.Config{Name: "waiting lists", Events: facts},
		func(ctx context.Context, _ *memtarget.Tx[int], d projector.Delivery) error {
			if e, ok := d.Event.(CourseFilled); ok {
				return reaction.Run(ctx, runner, d, "open the waiting list", OpenWaitingList{e.Course})
			}
			return nil
		})
	ended := make(chan error)
	go func() { ended <- waitingLists.Run(ctx) }()

	out, err := command.Run(ctx, runner, command.NewID(), Fill{"go"})
	if err != nil {
		log.Fatal(err)
	}
	if err := waitingLists.WaitFor(ctx, out.Position); err != nil {
		log.Fatal(err)
	}
	opened, err := command.Run(ctx, runner, reaction.ID(out.Events[0].ID, "open the waiting list"), OpenWaitingList{"go"})
	fmt.Println(opened.Status, "before:", opened.Replayed, "depth:", opened.Events[0].Metadata.Depth, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// committed before: true depth: 1 <nil>
	// <nil>
}
