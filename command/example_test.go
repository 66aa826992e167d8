package command_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
)

func Example() {
	store := memstore.New()
	defer store.Close()
	runner := command.NewRunner(store, command.Config{})
	ctx := context.Background()

	id, err := command.KeyID("shop", "order-17") // from the caller's idempotency key
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the caller asks again
		out, err := command.Run(ctx, runner, id, deposit{"ada", 100})
		fmt.Println(out.Status, out.State.Cents, out.Replayed, err)
	}

	out, err := command.Run(ctx, runner, command.NewID(), withdraw{Account: "ada", Cents: 130})
	fmt.Println(out.Status, errors.Is(err, errShort))
	// Output:
	// committed 100 false <nil>
	// committed 100 true <nil>
	// refused true
}

// A context that another one chooses: both are read as of one moment, and both
// are observed.
func ExampleThen() {
	store := memstore.New()
	defer store.Close()
	runner := command.NewRunner(store, command.Config{})
	rich := command.Then(about("ada"),
		func(a account) command.View[account] {
			if a.Cents > 50 {
				return about("savings")
			}
			return about("loans")
		},
		func(_, other account) account { return other })
	sweep := rule("sweep", rich, func(account) ([]event.Event, error) {
		return []event.Event{posted{"ada", 1}}, nil
	})
	out, err := command.Run(context.Background(), runner, command.NewID(), sweep)
	fmt.Println(out.Status, err)
	// Output: committed <nil>
}
