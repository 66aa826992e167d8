package eventstore_test

import (
	"encoding/json"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

func BenchmarkCheckAppend(b *testing.B) {
	for name, n := range map[string]int{"1": 1, "1000": 1000} {
		records := make([]event.Record, n)
		for i := range records {
			records[i] = event.Record{ID: uuid.New(), Type: "MoneyPosted", Data: json.RawMessage(`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","accountId":"ada","cents":"-30"}`)}
		}
		seen := []consistency.Observation{{Query: consistency.Where("accountId", "ada")}, {Query: consistency.Where("commandId", "x")}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := eventstore.CheckAppend(records, seen); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
