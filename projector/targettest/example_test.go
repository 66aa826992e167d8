package targettest_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/cccgo/ccc/projector/targettest"
)

// The suite as a check of a target; in a test it is targettest.Run(t, …) with
// the same arguments.
func ExampleCheck() {
	type tx = *memtarget.Tx[string]
	var mu sync.Mutex
	made := map[string]projector.Target[tx]{}
	err := targettest.Check(targettest.Features{Shared: true, Lease: 20 * time.Millisecond}, targettest.Subject[tx]{
		Open: func(name string) (projector.Target[tx], error) {
			mu.Lock()
			defer mu.Unlock()
			if made[name] == nil {
				target := memtarget.New[string]()
				target.Lease = 20 * time.Millisecond
				made[name] = target
			}
			return made[name], nil
		},
		Put: func(x tx, key, value string) error { x.Put(key, value); return nil },
		Get: func(x tx, key string) (string, bool, error) {
			value, found := x.Get(key)
			return value, found, nil
		},
		Read: func(t projector.Target[tx], key string) (string, bool, error) {
			value, found := t.(interface{ Get(string) (string, bool) }).Get(key) // or a Generation
			return value, found, nil
		},
		Freeze: func(t projector.Target[tx], name projector.Name) {
			state, _ := t.State(context.Background(), name)
			t.(*memtarget.Target[string]).Freeze(projector.Claim{Name: name, Epoch: state.Epoch})
		},
	})
	fmt.Println(err)
	// Output: <nil>
}
