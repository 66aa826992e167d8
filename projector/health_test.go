package projector_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

func lagOf(t testing.TB, p *projector.Projector[tx]) projector.Lag {
	t.Helper()
	l, err := p.Lag(context.Background())
	require.NoError(t, err)
	return l
}

func healthOf(t testing.TB, p *projector.Projector[tx]) projector.Health {
	t.Helper()
	h, err := p.Health(context.Background())
	require.NoError(t, err)
	return h
}

// The lag counts what the projector gets, and is as old as the first of it.
func TestLagCountsEventsAndTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(), memtarget.New[string]()
		p := projector.New(log, m, config(), add)
		require.Equal(t, projector.Lag{}, lagOf(t, p))

		log.add(record(t, Strange{"a"}))
		time.Sleep(time.Minute)
		log.add(record(t, Strange{"a"}))
		l := lagOf(t, p)
		require.False(t, l.CaughtUp())
		require.Zero(t, l.Events)
		require.Equal(t, time.Minute, l.Age, "of an event that the checkpoint has to pass")

		log.add(numbers(t, "a", 2)...)
		log.add(record(t, Strange{"a"}))
		time.Sleep(time.Second)
		head := log.add(record(t, Added{"a", 3}))
		headTime := time.Now().UTC().Truncate(time.Microsecond)
		time.Sleep(time.Second)
		l = lagOf(t, p)
		require.Equal(t, projector.Lag{Head: head, HeadTime: headTime, Events: 3, Age: 2 * time.Second}, l)

		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), head))
		moved := time.Now().UTC().Truncate(time.Microsecond)
		require.Equal(t, projector.Lag{Checkpoint: head, Head: head, HeadTime: headTime, Held: true, Moved: moved}, lagOf(t, p))
		run.stop(t)

		log.add(numbers(t, "a", projector.MaxLagEvents)...)
		l = lagOf(t, p)
		require.Equal(t, projector.MaxLagEvents, l.Events)
		require.False(t, l.More)
		log.add(numbers(t, "a", 1)...)
		l = lagOf(t, p)
		require.Equal(t, projector.MaxLagEvents, l.Events)
		require.True(t, l.More)

		// A page that shows less than there is.
		log.show(len(log.all()) - projector.MaxLagEvents - 1)
		l = lagOf(t, p)
		require.Zero(t, l.Events)
		require.True(t, l.More)
	})
}

// A writer's clock that is ahead makes no negative age; a store or a target that
// does not answer is an error.
func TestLagOfOddClocksAndTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		p := projector.New(store, m, config(), add)
		r := record(t, Added{"a", 1})
		r.Time = time.Now().Add(time.Hour)
		appendAll(t, store, r)
		require.Zero(t, lagOf(t, p).Age)
		require.Equal(t, 1, lagOf(t, p).Events)

		weak := &steps[tx]{m, func(context.Context, string) error { return errTest }}
		broken := newFakeLog(r)
		for _, at := range []string{"snapshot", "page"} {
			broken.broken = func(call string) error {
				if call == at {
					return errTest
				}
				return nil
			}
			for _, p := range []*projector.Projector[tx]{projector.New(broken, m, config(), add), projector.New[tx](store, weak, config(), add)} {
				_, err := p.Lag(t.Context())
				require.ErrorIs(t, err, errTest)
				require.ErrorContains(t, err, name.String())
				h, err := p.Health(t.Context())
				require.ErrorIs(t, err, errTest)
				require.ErrorContains(t, err, name.String())
				require.False(t, h.Healthy())
			}
		}
		wrong := projector.New(store, m, projector.Config{}, add)
		_, err := wrong.Health(t.Context())
		require.ErrorIs(t, err, projector.ErrMisuse)
	})
}

// A model that is ahead of its log, or has another event where it ends, is not
// caught up.
func TestLagOfAForeignLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
		p := projector.New(log, m, config(), add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[2].Position))
		run.stop(t)
		for n, other := range []*fakeLog{newFakeLog(), newFakeLog(log.all()[:2]...), newFakeLog(numbers(t, "a", 3)...)} {
			p := projector.New(other, m, config(), add)
			_, err := p.Lag(t.Context())
			require.ErrorIs(t, err, projector.ErrForeignLog, n)
			h, err := p.Health(t.Context())
			require.ErrorIs(t, err, projector.ErrForeignLog, n)
			require.False(t, h.Healthy())
		}
	})
}

// Health is seen on a replica that does nothing, whatever the working one does.
func TestHealth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		cfg := config()
		cfg.Failures.Attempts = 3
		seen := projector.New(store, m, cfg, add)
		is := func(want projector.Condition, healthy bool) projector.Health {
			t.Helper()
			synctest.Wait()
			h := healthOf(t, seen)
			require.Equal(t, want, h.Condition)
			require.Equal(t, healthy, h.Healthy())
			return h
		}
		require.Contains(t, is(projector.NoWorker, false).Blocking.Why, "call Run")
		var fails atomic.Bool
		hang := make(chan struct{})
		run := start(t, projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			switch {
			case fails.Load():
				return fmt.Errorf("first line\nsecond: %w", errTest)
			case d.Event.(Added).Key == "hangs":
				<-hang
			}
			return add(ctx, x, d)
		}))
		require.Equal(t, projector.Blocking{}, is(projector.Current, true).Blocking)
		time.Sleep(time.Hour)
		is(projector.Current, true)

		// Tried again, then halted.
		fails.Store(true)
		bad := record(t, Added{"a", 1})
		at := appendAll(t, store, bad)
		appendAll(t, store, record(t, Added{"a", 2}))
		h := is(projector.Retrying, true)
		require.Equal(t, projector.Blocking{Position: at, EventID: bad.ID, Type: "Added", Why: "could not be applied in 1 attempts: first line"}, h.Blocking)
		time.Sleep(time.Hour)
		h = is(projector.Halted, false)
		require.Equal(t, bad.ID, h.Blocking.EventID)
		require.Equal(t, 2, h.Lag.Events)
		fails.Store(false)
		time.Sleep(time.Minute)
		is(projector.Current, true)

		// A handler that does not return.
		stuck := record(t, Added{"hangs", 1})
		appendAll(t, store, record(t, Strange{"a"}), record(t, Added{"a", 3}))
		at = appendAll(t, store, stuck)
		began := time.Now()
		for time.Since(began) <= time.Minute {
			require.Equal(t, projector.Blocking{}, is(projector.CatchingUp, true).Blocking)
			time.Sleep(time.Second)
		}
		h = is(projector.Stalled, false)
		require.Equal(t, at, h.Blocking.Position)
		require.Equal(t, stuck.ID, h.Blocking.EventID)
		require.Equal(t, "Added", h.Blocking.Type)
		require.Contains(t, h.Blocking.Why, "has not moved the checkpoint since "+began.UTC().Format(time.RFC3339))
		close(hang)
		is(projector.Current, true)

		// Progress with a backlog that is old is none.
		run.stop(t)
		is(projector.NoWorker, false)
		last := appendAll(t, store, numbers(t, "a", 100)...)
		time.Sleep(time.Hour)
		run = start(t, projector.New(store, m, cfg, func(context.Context, tx, projector.Delivery) error { time.Sleep(time.Second); return nil }))
		time.Sleep(2 * time.Second)
		for range 90 {
			is(projector.CatchingUp, true)
			time.Sleep(time.Second)
		}
		require.NoError(t, seen.WaitFor(short(t), last))
		run.stop(t)
	})
}

// A worker that hangs in a later try of an event that has failed before does not
// hide behind that failure; one that waits for the next try is no stall.
func TestHealthOfATryThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		cfg := config()
		cfg.StallAfter = 5 * time.Second
		cfg.Failures.Attempts, cfg.Failures.FirstDelay, cfg.Failures.MaxDelay = 100, 10*time.Second, 10*time.Second
		hang := make(chan struct{})
		p := projector.New(store, m, cfg, func(_ context.Context, _ tx, d projector.Delivery) error {
			if d.Attempt > 20 {
				<-hang
			}
			return errTest
		})
		run := start(t, p)
		appendAll(t, store, record(t, Added{"a", 1}))
		for synctest.Wait(); stateOf(t, m).Failure.Attempts < 20; time.Sleep(time.Second) {
			require.Equal(t, projector.Retrying, healthOf(t, p).Condition)
		}
		time.Sleep(time.Minute)
		h := healthOf(t, p)
		require.Equal(t, projector.Stalled, h.Condition)
		close(hang)
		run.stop(t)
	})
}

// Parked events have a condition of their own, and the first one is named.
func TestHealthNamesAParkedEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		cfg := config()
		cfg.Keys = projector.DataKeys("key")
		cfg.Failures = projector.Policy{Attempts: 2, Then: projector.Park}
		p := projector.New(store, m, cfg, add)
		run := start(t, p)
		bad := broken()
		at := appendAll(t, store, bad)
		last := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"b", 1}))
		require.NoError(t, p.WaitFor(short(t), last, projector.DataKey("key", "b")))
		h := healthOf(t, p)
		require.Equal(t, projector.ParkedEvents, h.Condition)
		require.True(t, h.Healthy())
		require.Equal(t, 2, h.Lag.Parked)
		require.True(t, h.Lag.CaughtUp())
		require.Equal(t, at, h.Blocking.Position)
		require.Equal(t, bad.ID, h.Blocking.EventID)
		require.True(t, strings.HasPrefix(h.Blocking.Why, "parked after 1 attempts: "), h.Blocking.Why)
		require.NoError(t, p.Discard(t.Context(), at, "it is broken"))
		require.NoError(t, p.WaitFor(short(t), last))
		require.Equal(t, projector.Current, healthOf(t, p).Condition)
		run.stop(t)

		cfg.Failures.Then = projector.Skip
		cfg.Name = "skips"
		p = projector.New(store, m, cfg, add)
		run = start(t, p)
		require.NoError(t, p.WaitFor(short(t), last))
		require.EqualValues(t, 1, lagOf(t, p).Skipped)
		run.stop(t)
	})
}

// What does not return is told in the log after Config.StallAfter, with the event
// in its hands, once per interval, and when it is over.
func TestStallIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
		cfg := config()
		cfg.Logger, cfg.StallAfter, cfg.BatchSize = book.logger(), 40*time.Second, 100
		hang := make(chan struct{})
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			switch d.Event.(Added).Key {
			case "slow":
				time.Sleep(39 * time.Second)
			case "hangs":
				<-hang
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		time.Sleep(time.Hour)
		slow := appendAll(t, store, record(t, Added{"slow", 1}), record(t, Added{"a", 1}), record(t, Added{"slow", 1}), record(t, Added{"slow", 1}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, p.WaitFor(ctx, slow))
		time.Sleep(time.Hour)
		require.Empty(t, book.with("stalled"), "neither slow nor idle is stalled")

		stuck := record(t, Added{"hangs", 1})
		at := appendAll(t, store, record(t, Added{"a", 1}))
		require.NoError(t, p.WaitFor(short(t), at))
		at = appendAll(t, store, stuck)
		began := time.Now()
		time.Sleep(40*time.Second - 1)
		synctest.Wait()
		require.Empty(t, book.with("stalled"))
		time.Sleep(1)
		synctest.Wait()
		lines := book.with("stalled", "level=ERROR", "handler", stuck.ID.String(), "position="+at.String(), "type=Added", "for 40s")
		require.Len(t, lines, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, book.with("stalled"), 61)
		require.Len(t, book.with("stalled", stuck.ID.String()), 61)
		require.Empty(t, book.with("goes on"))
		close(hang)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Len(t, book.with("goes on", fmt.Sprint("for=", time.Since(began))), 1)
		run.stop(t)
		time.Sleep(time.Hour)
		require.Len(t, book.with("stalled"), 61)
	})
}

// A target or a store that does not answer is told too, and a handler that does
// not return when Run is to end.
func TestStallOfTheTargetAndTheStoreIsTold(t *testing.T) {
	for _, at := range []string{"claim", "state", "work", "fail", "apply", "page", "snapshot"} {
		t.Run(at, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				log, m, book := newFakeLog(), memtarget.New[string](), &logbook{}
				var hangs atomic.Bool
				over := make(chan struct{})
				hook := func(step string) error {
					if step == at && hangs.Load() {
						<-over
					}
					return nil
				}
				log.broken = hook
				cfg := config()
				cfg.Logger = book.logger()
				before := start(t, projector.New(log, m, cfg, add))
				log.add(numbers(t, "a", 1)...)
				synctest.Wait()
				before.stop(t)
				hangs.Store(true)
				p := projector.New[tx](log, &steps[tx]{m, func(_ context.Context, step string) error { return hook(step) }}, cfg,
					func(_ context.Context, _ tx, d projector.Delivery) error {
						if at == "fail" && d.Attempt == 1 {
							return errTest
						}
						return nil
					})
				run := start(t, p)
				log.add(numbers(t, "a", 1)...)
				time.Sleep(time.Minute - 1)
				synctest.Wait()
				require.Empty(t, book.with("stalled"))
				time.Sleep(1)
				synctest.Wait()
				require.Len(t, book.with("stalled", "for 1m0s", map[bool]string{true: "store", false: "target"}[at == "page" || at == "snapshot"]), 1)
				run.end()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, book.with("stalled"), 2, "Run has not ended")
				close(over)
				require.NoError(t, <-run.ended)
				time.Sleep(time.Hour)
				require.Len(t, book.with("stalled"), 2)
			})
		})
	}
}

// In lanes, the event that is named is the one that hangs.
func TestStallInALane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
		cfg := config()
		cfg.Logger, cfg.Lanes, cfg.Keys = book.logger(), 4, projector.DataKeys("key")
		hang := make(chan struct{})
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).Key == "hangs" {
				<-hang
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		var stuck []event.Record
		var last consistency.Position
		for i := range 3 {
			stuck = append(stuck, record(t, Added{"hangs", i + 1}))
		}
		appendAll(t, store, numbers(t, "a", 3)...)
		at := appendAll(t, store, stuck[0])
		for range 100 {
			time.Sleep(time.Second)
			last = appendAll(t, store, record(t, Added{"b", 1}))
		}
		require.Len(t, book.with("stalled"), 1)
		require.Len(t, book.with("stalled", "handler", stuck[0].ID.String(), "position="+at.String()), 1)
		h := healthOf(t, p)
		require.Equal(t, projector.Stalled, h.Condition)
		require.Equal(t, stuck[0].ID, h.Blocking.EventID)
		close(hang)
		require.NoError(t, p.WaitFor(short(t), last))
		run.stop(t)
	})
}
