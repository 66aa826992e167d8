package reaction_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A small shop for the tests of this package: what is paid is shipped, if there
// is any.

type paid struct {
	Order string `json:"orderId"`
}

type stocked struct {
	Shop  string `json:"shopId"`
	Count struct {
		Pieces int `json:"pieces"`
	} `json:"count"`
}

type shipped struct {
	Shop  string `json:"shopId"`
	Order string `json:"orderId"`
}

// soldOut is a refusal that is recorded.
type soldOut struct {
	Shop string `json:"shopId"`
}

func (paid) EventType() string    { return "OrderPaid" }
func (stocked) EventType() string { return "ShopStocked" }
func (shipped) EventType() string { return "OrderShipped" }
func (soldOut) EventType() string { return "ShopSoldOut" }
func (s soldOut) Error() string   { return s.Shop + " is sold out" }

var (
	events    = event.NewCodec(event.Of[paid](), event.Of[stocked](), event.Of[shipped](), event.Of[soldOut]())
	shops     = command.NewModel(events, evolve)
	errNoMore = errors.New("no more")
)

// evolve counts the pieces that a shop has.
func evolve(pieces int, e event.Event) int {
	switch e := e.(type) {
	case stocked:
		pieces += e.Count.Pieces
	case shipped:
		pieces--
	}
	return pieces
}

type ship struct {
	Order string
	// Plain refuses with an error that is no event, Silent does nothing.
	Plain, Silent bool
}

func (ship) CommandName() string { return "ship" }
func (ship) Context() command.View[int] {
	return shops.History(consistency.Where("shopId", "main"))
}
func (c ship) Decide(pieces int) ([]event.Event, error) {
	switch {
	case pieces > 0:
		return []event.Event{shipped{"main", c.Order}}, nil
	case c.Plain:
		return nil, errNoMore
	case c.Silent:
		return nil, nil
	}
	return nil, soldOut{"main"}
}

// say writes events, as a command of somebody's that depends on nothing.
type say struct{ Events []event.Event }

func (say) CommandName() string                    { return "say" }
func (say) Context() command.View[int]             { return shops.None() }
func (c say) Decide(int) ([]event.Event, error)    { return c.Events, nil }
func (c say) MarshalJSON() ([]byte, error)         { return fmt.Appendf(nil, "%q", fmt.Sprint(c.Events)), nil }
func happens(s eventstore.Store, e ...event.Event) { _ = happened(s, e...) }
func happened(s eventstore.Store, e ...event.Event) projector.Delivery {
	out, err := command.Run(context.Background(), command.NewRunner(s, command.Config{}), command.NewID(), say{e})
	if err != nil {
		panic(err)
	}
	return projector.Delivery{Record: out.Events[0], Event: e[0], Attempt: 1}
}

func stock(pieces int) (s stocked) {
	s.Shop, s.Count.Pieces = "main", pieces
	return s
}

// found are the events of a type in a log.
func found(t testing.TB, s eventstore.Store, e event.Event) (all []event.Record) {
	t.Helper()
	for r, err := range eventstore.All(context.Background(), s, consistency.All().Type(e.EventType()), consistency.Position{}) {
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

// hasty gives up soon.
var hasty = command.Config{MaxAttempts: 2, MaxElapsed: time.Second, AttemptTimeout: 100 * time.Millisecond, LastLook: 100 * time.Millisecond}

func foreign(e event.Event) projector.Delivery {
	return projector.Delivery{Record: event.Record{ID: uuid.New(), Type: e.EventType()}, Event: e, Attempt: 1}
}
