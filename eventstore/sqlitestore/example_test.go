package sqlitestore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/sqlitestore"
	"github.com/google/uuid"
)

// A log outlives the program that wrote it.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bank.db")
	ctx := context.Background()

	store, err := sqlitestore.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	ada := consistency.Where("accountId", "ada")
	opened := event.Record{ID: uuid.New(), Type: "AccountOpened", Data: json.RawMessage(`{"accountId":"ada"}`)}
	// Saved if nothing is known of the account.
	if _, err := store.Append(ctx, []event.Record{opened}, []consistency.Observation{{Query: ada}}); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	store, err = sqlitestore.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	for r, err := range eventstore.All(ctx, store, ada, consistency.Position{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Type, string(r.Data))
	}
	again := event.Record{ID: uuid.New(), Type: "AccountOpened", Data: opened.Data}
	_, err = store.Append(ctx, []event.Record{again}, []consistency.Observation{{Query: ada}})
	fmt.Println(eventstore.KindOf(err))
	// Output:
	// AccountOpened {"accountId":"ada"}
	// conflict
}

// One file, several logs that know nothing of each other.
func ExampleConfig_Open() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "company.db")

	for _, name := range []string{"payroll", "warehouse"} {
		store, err := sqlitestore.Config{Boundary: name}.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		page, err := store.Page(context.Background(), consistency.All(), consistency.Position{}, 0)
		fmt.Println(name, len(page.Records), err)
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// payroll 0 <nil>
	// warehouse 0 <nil>
}
