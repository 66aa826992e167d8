package memstore_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/google/uuid"
)

func Example() {
	ctx := context.Background()
	store := memstore.New()
	defer store.Close()

	receipt, err := store.Append(ctx, []event.Record{
		{ID: uuid.New(), Type: "AccountOpened", Data: json.RawMessage(`{"accountId":"ada"}`)},
		{ID: uuid.New(), Type: "MoneyPosted", Data: json.RawMessage(`{"accountId":"ada","cents":"100"}`)},
	}, nil)
	fmt.Println(receipt.Positions, err)

	results, err := store.Snapshot(ctx,
		eventstore.Part{Query: consistency.Where("accountId", "ada").Type("MoneyPosted")},
		eventstore.Part{Query: consistency.Where("accountId", "bob"), LatestOnly: true})
	fmt.Println(string(results[0].Records[0].Data), results[0].Last, err)
	fmt.Println(len(results[1].Records), results[1].Last.IsZero())
	// Output:
	// [a1 a2] <nil>
	// {"accountId":"ada","cents":"100"} a2 <nil>
	// 0 true
}
