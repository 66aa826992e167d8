package eventstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/google/uuid"
)

// What a decision was based on is observed by the append that follows from it.
func Example() {
	ctx := context.Background()
	store := memstore.New()
	account := consistency.Where("accountId", "ada")
	post := func(cents string) []event.Record {
		return []event.Record{{ID: uuid.New(), Type: "MoneyPosted", Data: json.RawMessage(`{"accountId":"ada","cents":"` + cents + `"}`)}}
	}

	results, err := store.Snapshot(ctx, eventstore.Part{Query: account})
	if err != nil {
		fmt.Println(err)
		return
	}
	seen := []consistency.Observation{{Query: account, At: results[0].Last}}
	_, err = store.Append(ctx, post("100"), seen)
	fmt.Println("first:", err)

	_, err = store.Append(ctx, post("-30"), seen) // the account has moved on
	fmt.Println("second:", eventstore.KindOf(err))
	// Output:
	// first: <nil>
	// second: conflict
}

func ExampleAll() {
	ctx := context.Background()
	store := memstore.New()
	for _, account := range []string{"ada", "bob", "ada"} {
		_, err := store.Append(ctx, []event.Record{{ID: uuid.New(), Type: "Seen", Data: fmt.Appendf(nil, `{"accountId":%q}`, account)}}, nil)
		if err != nil {
			fmt.Println(err)
		}
	}
	var start consistency.Position
	for record, err := range eventstore.All(ctx, store, consistency.Where("accountId", "ada"), start) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(record.Position, record.Type)
	}
	// Output:
	// a1 Seen
	// a3 Seen
}

func ExampleKindOf() {
	err := fmt.Errorf("save: %w", fmt.Errorf("%w: connection reset", eventstore.Ambiguous))
	fmt.Println(eventstore.KindOf(err))
	fmt.Println(eventstore.KindOf(errors.New("a driver's own error")))
	fmt.Println(eventstore.KindOf(nil) == "")
	// Output:
	// ambiguous
	// ambiguous
	// true
}
