package main

import (
	"context"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/reaction"
)

// OpenWaitingList opens the waiting list of a course that is full.
type OpenWaitingList struct{ Course string }

func (OpenWaitingList) CommandName() string             { return "open waiting list" }
func (c OpenWaitingList) Context() command.View[Course] { return course(c.Course) }
func (c OpenWaitingList) Decide(now Course) ([]event.Event, error) {
	if now.ListOpen || now.Free() > 0 {
		return nil, nil // nothing to do
	}
	return []event.Event{WaitingListOpened(c)}, nil
}

// openWaitingLists is the reaction: a full course opens its list, once, however
// often the fact is delivered. What the target holds is only how far it is.
func openWaitingLists[Tx any](runner *command.Runner) projector.Handler[Tx] {
	return func(ctx context.Context, _ Tx, d projector.Delivery) error {
		if e, ok := d.Event.(CourseFilled); ok {
			return reaction.Run(ctx, runner, d, "open waiting list", OpenWaitingList(e))
		}
		return nil
	}
}
