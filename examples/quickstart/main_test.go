package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cccgo/ccc/command/commandtest"
	"github.com/cccgo/ccc/projector/sqlitetarget"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Rules are tested without a store.
func TestTransfer(t *testing.T) {
	given := commandtest.Given(t, Opened{"ada"}, Opened{"bob"}, Posted{"ada", 50})
	commandtest.When(given, Transfer{"ada", "bob", 30}).
		Then(Posted{"ada", -30}, Posted{"bob", 30}).
		ThenState(map[string]Account{"ada": {true, 20}, "bob": {true, 30}})
	commandtest.When(given, Transfer{"ada", "bob", 51}).ThenRefused(errShort)
	commandtest.When(given, Transfer{"ada", "bob", 0}).ThenRefused(errShort)
	commandtest.When(given, Transfer{"ada", "eve", 1}).ThenRefused(errShort)
}

func TestOpen(t *testing.T) {
	commandtest.When(commandtest.Given(t), Open{"ada"}).Then(Opened{"ada"}, Posted{"ada", 100})
	commandtest.When(commandtest.Given(t, Opened{"ada"}), Open{"ada"}).ThenNothing()
}

// The second run finds that the transfer is done.
func Example() {
	dir, err := os.MkdirTemp("", "quickstart-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chdir(dir)
	}
	ctx := context.Background()
	err = errors.Join(err, run(ctx), run(ctx), show(ctx))
	if err = errors.Join(err, os.Chdir(os.TempDir())); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ada has 70, bob has 130, done before: false
	// ada has 70, bob has 130, done before: true
	// the read model: ada 70
	// the read model: bob 130
}

// show reads the read model, as another program would.
func show(ctx context.Context) error {
	model, err := sqlitetarget.Open("balances.db")
	if err != nil {
		return err
	}
	defer model.Close()
	return model.Read(ctx, func(tx *sqlitetarget.Tx) error {
		for row, err := range tx.Query(`SELECT account, cents FROM balance ORDER BY account`) {
			var account string
			var cents int64
			if err == nil {
				err = row.Scan(&account, &cents)
			}
			if err != nil {
				return err
			}
			fmt.Println("the read model:", account, cents)
		}
		return nil
	})
}
