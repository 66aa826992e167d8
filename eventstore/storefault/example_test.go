package storefault_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/google/uuid"
)

// The answer to the first append is lost; the second one shows that it landed.
func Example() {
	ctx := context.Background()
	store := storefault.New(memstore.New(), storefault.Config{})
	defer store.Close()
	store.Script(storefault.LoseAnswer)

	records := []event.Record{{ID: uuid.New(), Type: "MoneyPosted", Data: json.RawMessage(`{"commandId":"c1"}`)}}
	guard := []consistency.Observation{{Query: consistency.Where("commandId", "c1")}}
	for range 2 {
		_, err := store.Append(ctx, records, guard)
		fmt.Println(eventstore.KindOf(err))
	}
	fmt.Println(store.Counts().Appends, "appends")
	// Output:
	// ambiguous
	// conflict
	// 2 appends
}

// A seed makes a long run that can be repeated.
func ExampleRough() {
	ctx := context.Background()
	store := storefault.New(memstore.New(), storefault.Rough(42, 0.1))
	defer store.Close()
	for i := range 100 {
		// A caller's own rule for trying again would stand here.
		data := fmt.Appendf(nil, `{"n":"%d"}`, i)
		_, _ = store.Append(ctx, []event.Record{{ID: uuid.New(), Type: "Counted", Data: data}}, nil)
	}
	store.Settle()
	fmt.Println(len(store.Counts().Faults) > 3, store.InFlight())
	// Output: true 0
}
