package memtarget_test

import (
	"context"
	"sync"
	"testing"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/cccgo/ccc/projector/targettest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	tx     = *memtarget.Tx[string]
	target = projector.Target[tx]
)

// subject is one Target per name: it cannot be opened twice, and is not durable.
func subject() targettest.Subject[tx] {
	var mu sync.Mutex
	made := map[string]target{}
	return targettest.Subject[tx]{
		Open: func(name string) (target, error) {
			mu.Lock()
			defer mu.Unlock()
			if made[name] == nil {
				made[name] = memtarget.New[string]()
			}
			return made[name], nil
		},
		Put: func(x tx, key, value string) error { x.Put(key, value); return nil },
		Get: func(x tx, key string) (string, bool, error) {
			v, ok := x.Get(key)
			return v, ok, nil
		},
		Read: func(t target, key string) (string, bool, error) {
			v, ok := t.(interface{ Get(string) (string, bool) }).Get(key) // a Generation too
			return v, ok, nil
		},
		Freeze: func(t target, n projector.Name) {
			s, _ := t.State(context.Background(), n)
			t.(*memtarget.Target[string]).Freeze(projector.Claim{Name: n, Epoch: s.Epoch})
		},
	}
}

func TestTarget(t *testing.T) {
	targettest.Run(t, targettest.Features{Shared: true, Virtual: true}, subject())
}
