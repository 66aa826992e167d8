package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// These tests let one thing go wrong at one step of a worker, for each step that
// there is, and then compare the model with a fold of the log.

// moment counts a worker's steps and does something at one of them.
type moment struct {
	mu   sync.Mutex
	left int
	name string // of the step it happened at
	do   func(ctx context.Context, step string) error
}

func (m *moment) hook(ctx context.Context, step string) error {
	m.mu.Lock()
	m.left--
	hit := m.left == 0
	if hit {
		m.name = step
	}
	m.mu.Unlock()
	if hit {
		return m.do(ctx, step)
	}
	return nil
}

func (m *moment) happened() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.name
}

// atEach runs a scenario once per step, until one has fewer steps. The log has
// doubles, events of other types, and one that fails at first.
func atEach(t *testing.T, scenario func(t *testing.T, log *fakeLog, m model, at *moment, handler projector.Handler[tx])) {
	happened := map[string]bool{}
	for n := 1; ; n++ {
		at := &moment{left: n}
		bubble(t, func(t *testing.T) {
			one, three := record(t, Added{"a", 1}), record(t, Added{"a", 3})
			log, m := newFakeLog(one, record(t, Added{"a", 2}), record(t, Strange{"a"}), one, three, record(t, Added{"b", 1}), three, record(t, Strange{"b"})), memtarget.New[string]()
			fails := 2
			scenario(t, log, m, at, func(ctx context.Context, x tx, d projector.Delivery) error {
				if err := at.hook(ctx, "handler"); err != nil {
					return err
				}
				err := add(ctx, x, d)
				if d.Event.(Added).N == 3 && fails > 0 {
					fails--
					return errTest
				}
				return err
			})
			require.Equal(t, fold(log.all()), values(m), "step %d, %s", n, at.happened())
			require.False(t, stateOf(t, m).Held, "step %d, %s: the name is not released", n, at.happened())
		})
		if at.happened() == "" {
			require.Greater(t, n, 20)
			break
		}
		happened[at.happened()] = true
	}
	for _, step := range []string{"claim", "claim done", "state", "state done", "apply", "work", "apply done", "fail", "fail done", "release", "handler"} {
		require.True(t, happened[step], "nothing happened at step %q", step)
	}
}

func moments(log *fakeLog, m model, at *moment, handler projector.Handler[tx], size int) *projector.Projector[tx] {
	cfg := config()
	cfg.BatchSize = size
	return projector.New[tx](log, &steps[tx]{m, at.hook}, cfg, handler)
}

// The context ends at each step: Run returns nil, and the next one goes on.
func TestContextEndsAtEachStep(t *testing.T) {
	for _, size := range []int{1, 3} {
		atEach(t, func(t *testing.T, log *fakeLog, m model, at *moment, handler projector.Handler[tx]) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			at.do = func(context.Context, string) error { cancel(); return nil }
			p := moments(log, m, at, handler, size)
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			last := log.all()[7].Position
			next := projector.New(log, m, config(), handler)
			waiting, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			_ = next.WaitFor(waiting, last)
			cancel()
			require.NoError(t, <-ended)
			require.False(t, stateOf(t, m).Held)

			run := start(t, next)
			require.NoError(t, next.WaitFor(short(t), last))
			run.stop(t)
		})
	}
}

// An error at each step, before a call or instead of its answer.
func TestErrorAtEachStep(t *testing.T) {
	for _, size := range []int{1, 3} {
		atEach(t, func(t *testing.T, log *fakeLog, m model, at *moment, handler projector.Handler[tx]) {
			at.do = func(_ context.Context, step string) error {
				if step == "claim done" || step == "release" { // then the lease is all there is
					s, _ := m.State(context.Background(), name)
					m.Freeze(projector.Claim{Name: name, Epoch: s.Epoch})
				}
				return errTest
			}
			run := start(t, moments(log, m, at, handler, size))
			reader := projector.New(log, m, config(), handler) // its calls are no steps of the worker
			require.NoError(t, reader.WaitFor(short(t), log.all()[7].Position))
			run.stop(t)
			if stateOf(t, m).Held {
				time.Sleep(11 * time.Second)
			}
		})
	}
}

// A worker stands still at each step for longer than its lease, another one
// goes on, and then it wakes up.
func TestFrozenAtEachStep(t *testing.T) {
	for _, size := range []int{1, 3} {
		atEach(t, func(t *testing.T, log *fakeLog, m model, at *moment, handler projector.Handler[tx]) {
			wake := make(chan struct{})
			at.do = func(context.Context, string) error {
				s, _ := m.State(context.Background(), name)
				m.Freeze(projector.Claim{Name: name, Epoch: s.Epoch})
				<-wake
				return nil
			}
			frozen := start(t, moments(log, m, at, handler, size))
			synctest.Wait()
			standby := projector.New(log, m, config(), func(ctx context.Context, x tx, d projector.Delivery) error { return add(ctx, x, d) })
			run := start(t, standby)
			require.NoError(t, standby.WaitFor(short(t), log.all()[7].Position))
			close(wake)
			synctest.Wait()
			for i := range 3 {
				require.NoError(t, standby.WaitFor(short(t), log.add(record(t, Added{"c", i}))))
			}
			frozen.stop(t)
			run.stop(t)
		})
	}
}

// A process dies at each step: nothing it began goes on, and its lease runs out.
func TestDeathAtEachStep(t *testing.T) {
	errDead := errors.New("the process is dead")
	for _, size := range []int{1, 3} {
		atEach(t, func(t *testing.T, log *fakeLog, m model, at *moment, handler projector.Handler[tx]) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			dead := false // set and read by the one worker
			at.do = func(context.Context, string) error {
				s, _ := m.State(context.Background(), name)
				m.Freeze(projector.Claim{Name: name, Epoch: s.Epoch})
				dead = true
				cancel()
				return errDead
			}
			mortal := &steps[tx]{m, func(ctx context.Context, step string) error {
				if dead {
					return errDead
				}
				return at.hook(ctx, step)
			}}
			cfg := config()
			cfg.BatchSize = size
			p := projector.New[tx](log, mortal, cfg, handler)
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			reader := projector.New(log, m, config(), handler)
			waiting, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			_ = reader.WaitFor(waiting, log.all()[7].Position)
			cancel()
			require.NoError(t, <-ended)

			run := start(t, reader)
			began := time.Now()
			require.NoError(t, reader.WaitFor(short(t), log.all()[7].Position))
			require.Less(t, time.Since(began), 15*time.Second, fmt.Sprint("after a death at ", at.happened()))
			run.stop(t)
			time.Sleep(11 * time.Second) // it may have died with nothing left to do
		})
	}
}

// A stored failure of an event that no longer matches goes away with it.
func TestFailureOfAnEventThatNoLongerMatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(record(t, Added{"a", 1}), record(t, Strange{"a"}), record(t, Added{"a", 2})), memtarget.New[string]()
		cfg := config()
		cfg.Events = event.NewCodec(event.Of[Added](), event.Of[Strange]())
		p := projector.New(log, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if _, ok := d.Event.(Strange); ok {
				return errTest
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), log.all()[2].Position), projector.ErrHalted)
		run.stop(t)
		p = projector.New(log, m, config(), add)
		run = start(t, p)
		synctest.Wait()
		require.NoError(t, p.WaitFor(t.Context(), log.all()[2].Position))
		require.Equal(t, projector.Failure{}, stateOf(t, m).Failure)
		run.stop(t)
	})
}
