package sqlitetarget

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var seed = flag.Uint64("target.seed", 1, "of the random run")

type counted struct {
	Key string `json:"key"`
}

func (counted) EventType() string { return "Counted" }

// Several workers of one name, on Targets of their own, are stopped, frozen and
// started again while events are written, and their handlers fail and panic. At
// the end each event has counted once.
func TestWorkersTakeTurns(t *testing.T) {
	const workers, events, keys = 3, 1500, 7
	t.Logf("seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	path := filepath.Join(t.TempDir(), "model.db")
	codec := event.NewCodec(event.Of[counted]())
	store := memstore.New()
	var fails atomic.Uint64
	run := func(target *Target) *projector.Projector[*Tx] {
		cfg := projector.Config{Name: testName.Projector, Events: codec, BatchSize: 20, Failures: projector.Policy{FirstDelay: time.Millisecond, MaxDelay: time.Millisecond, Attempts: 1000}, Poll: 50 * time.Millisecond}
		return projector.New(store, target, cfg, func(_ context.Context, x *Tx, d projector.Delivery) error {
			key := d.Event.(counted).Key
			v, _, err := get(x, key)
			if err != nil {
				return err
			}
			n, _ := strconv.Atoi(v)
			if err := x.Exec(`INSERT INTO kv VALUES (?1, ?2) ON CONFLICT DO UPDATE SET v = ?2`, key, strconv.Itoa(n+1)); err != nil {
				return err
			}
			switch fails.Add(1) % 61 {
			case 7:
				return errors.New("this time")
			case 33:
				panic("this time")
			}
			return nil
		})
	}
	type worker struct {
		target *Target
		stop   context.CancelFunc
		ended  chan error
	}
	begin := func() *worker {
		w := &worker{target: open(t, path, shortLease), ended: make(chan error, 1)}
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		go func() { w.ended <- run(w.target).Run(ctx) }()
		return w
	}
	end := func(w *worker) {
		w.stop()
		require.NoError(t, <-w.ended)
		require.NoError(t, w.target.Close())
	}
	var all []*worker
	for range workers {
		all = append(all, begin())
	}
	want := map[string]int{}
	var last consistency.Position
	for i := range events {
		e := counted{fmt.Sprint("k", random.IntN(keys))}
		want[e.Key]++
		data, version, err := codec.Encode(e, uuid.Nil)
		require.NoError(t, err)
		receipt, err := store.Append(t.Context(), []event.Record{{ID: uuid.New(), Type: e.EventType(), Data: data, Metadata: event.Metadata{Version: version}}}, nil)
		require.NoError(t, err)
		last = receipt.Positions[0]
		if i%100 != 99 {
			continue
		}
		switch w := random.IntN(workers); random.IntN(3) {
		case 0:
			end(all[w])
			all[w] = begin()
		case 1:
			all[w].target.freeze(testName)
		case 2: // everybody has what was written
			require.NoError(t, run(all[w].target).WaitFor(t.Context(), last))
		}
	}
	require.NoError(t, run(all[0].target).WaitFor(t.Context(), last))
	for key, n := range want {
		require.Equal(t, strconv.Itoa(n), read(t, all[1].target, key), "seed %d", *seed)
	}
	for _, w := range all {
		end(w)
	}
	requireNoLocks(t, filepath.Dir(path))
}
