package storetest_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storetest"
)

// trusting saves without a look at what was observed.
type trusting struct{ eventstore.Store }

func (t trusting) Append(ctx context.Context, records []event.Record, _ []consistency.Observation) (eventstore.Receipt, error) {
	return t.Store.Append(ctx, records, nil)
}

// A store that is wrong on purpose must fail, or the suite proves nothing.
func ExampleCheck() {
	err := storetest.Check(storetest.Features{Rounds: 2}, func(string) (eventstore.Store, error) {
		return trusting{memstore.New()}, nil
	})
	for line := range strings.Lines(err.Error()) {
		if strings.Contains(line, "case zero_means_no_match") {
			fmt.Print(line)
		}
	}
	// Output:
	// storetest: case zero_means_no_match: append of 1 events with observation k="1" at a0: Conflict expected, it was saved at [a4] (the case proves: an observation at the zero position holds as long as nothing matches)
}
