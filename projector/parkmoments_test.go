package projector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// Something goes wrong at each step that a worker makes while it parks, retries
// and discards: each effect is there once, in the order of its keys, and nothing
// is stuck.
func TestParkingWithTroubleAtEachStep(t *testing.T) {
	for _, how := range []string{"error", "end", "death", "freeze"} {
		for _, word := range []string{"retry", "discard"} {
			for _, lanes := range []int{1, 3} {
				t.Run(fmt.Sprint(how, " ", word, " ", lanes), func(t *testing.T) {
					happened := map[string]bool{}
					for n := 1; !t.Failed(); n++ {
						var step string
						bubble(t, func(t *testing.T) { step = parkWithTrouble(t, how, word, lanes, n) })
						if step == "" && (lanes == 1 || n > 60) { // lanes need not take the same steps each time
							require.Greater(t, n, 30)
							break
						}
						happened[step] = true
					}
					if lanes > 1 {
						return
					}
					for _, step := range []string{"claim done", "state", "apply", "work", "apply done", "fail", "parked", "handler"} {
						require.True(t, happened[step], "nothing happened at step %q", step)
					}
				})
			}
		}
	}
}

func parkWithTrouble(t *testing.T, how, word string, lanes, n int) (step string) {
	one, two := record(t, Added{"a", 1}), record(t, Added{"a", 2})
	log, m, c := newFakeLog(one, two, record(t, Added{"b", 3}), both(t, "a", "b", 4), one, record(t, Added{"c", 6}), two), memtarget.New[string](), newClinic(errTest, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var dead atomic.Bool
	wake, wakeUp := gate()
	defer wakeUp()
	at := &moment{left: n, do: func(_ context.Context, step string) error {
		s, _ := m.State(context.Background(), name)
		claim := projector.Claim{Name: name, Epoch: s.Epoch}
		switch how {
		case "error":
			if step == "claim done" || step == "release" { // then the lease is all there is
				m.Freeze(claim)
			}
			return errTest
		case "end":
			cancel()
		case "death":
			m.Freeze(claim)
			dead.Store(true)
			cancel()
			return errDead
		case "freeze":
			m.Freeze(claim)
			<-wake
		}
		return nil
	}}
	hook := func(ctx context.Context, step string) error {
		if dead.Load() {
			return errDead
		}
		return at.hook(ctx, step)
	}
	cfg := parks()
	cfg.Lanes, cfg.BatchSize = lanes, 3
	cfg.Failures.Attempts = 2
	p := projector.New[tx](log, stepped(m, hook), cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
		if err := hook(ctx, "handler"); err != nil {
			return err
		}
		return c.handle(ctx, x, d)
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	time.Sleep(2 * time.Second) // all is parked
	next := projector.New(log, m, cfg, c.handle)
	speak := func() {
		if word == "discard" {
			_ = next.Discard(t.Context(), log.all()[0].Position, "why")
			return
		}
		c.heal(1)
		_, err := next.Retry(t.Context())
		require.NoError(t, err)
	}
	speak()
	time.Sleep(2 * time.Second)
	standby := start(t, next)
	for range 3 { // it was parked too late for the first word, or tried while it was sick
		time.Sleep(12 * time.Second)
		speak()
	}
	time.Sleep(40 * time.Second)
	wakeUp()
	last := log.add(event.Record(record(t, Added{"c", 7})))
	require.NoError(t, next.WaitFor(short(t), last), "step %d, %s", n, at.happened())
	want, how2 := map[string]string{"a": ",1,2,4", "b": ",3,4", "c": ",6,7"}, "1 applied"
	if word == "discard" {
		want["a"], how2 = ",2,4", "1 discarded"
	}
	require.Equal(t, want, values(m), "step %d, %s", n, at.happened())
	if list := settled(t, m); list != "" || word == "discard" {
		require.Contains(t, list, how2, "step %d, %s", n, at.happened())
	}
	cancel()
	require.NoError(t, <-ended)
	standby.stop(t)
	require.Empty(t, waiting(t, m))
	return at.happened()
}
