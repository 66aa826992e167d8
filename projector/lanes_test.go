package projector_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// gate is a channel to wait at. Open it with defer too, for a test that fails.
func gate() (closed chan struct{}, open func()) {
	closed = make(chan struct{})
	open = sync.OnceFunc(func() { close(closed) })
	return closed, open
}

// laned is the configuration of tests with lanes.
func laned(lanes int) projector.Config {
	return projector.Config{Name: name.Projector, Events: codec, Lanes: lanes, Keys: projector.DataKeys("key")}
}

// oneByOne has an event in each transaction.
func oneByOne(c projector.Config) projector.Config {
	c.BatchSize = 1
	return c
}

// mixed are numbers 1 to n of each of several keys, interleaved at random.
func mixed(t testing.TB, r *rand.Rand, keys, n int) []event.Record {
	next := make([]int, keys)
	var out []event.Record
	for len(out) < keys*n {
		if k := r.IntN(keys); next[k] < n {
			next[k]++
			out = append(out, record(t, Added{fmt.Sprint("k", k), next[k]}))
		}
	}
	return out
}

// The order within a key is kept at 64 lanes with random delays.
func TestLanesKeepTheOrderOfEachKey(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) {
			t.Log("seed", seed)
			store, m, d := memstore.New(), memtarget.New[string](), newDice(seed, 1)
			records := mixed(t, rand.New(rand.NewPCG(seed, 0)), 20, 20)
			at := appendAll(t, store, records...)
			p := projector.New(store, m, laned(64), func(ctx context.Context, x tx, e projector.Delivery) error {
				time.Sleep(d.upTo(20 * time.Millisecond))
				return add(ctx, x, e)
			})
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), at))
			run.stop(t)
			require.Equal(t, fold(records), values(m))
			s := stateOf(t, m)
			require.EqualValues(t, len(records), s.Applied)
			require.False(t, s.Marked, "marks below the checkpoint are dropped")
		})
	}
}

// Lanes are side by side: eight handlers of a second each take one second.
func TestLanesAreSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var at = appendAll(t, store, record(t, Added{"a", 1}))
		for k := range 7 {
			at = appendAll(t, store, record(t, Added{fmt.Sprint("b", k), 1}))
		}
		p := projector.New(store, m, laned(8), func(ctx context.Context, x tx, e projector.Delivery) error {
			time.Sleep(time.Second)
			return add(ctx, x, e)
		})
		began := time.Now()
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Less(t, time.Since(began), 1100*time.Millisecond)
		run.stop(t)
	})
}

// They are with small transactions too.
func TestLanesAreSideBySideOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var at consistency.Position
		for k := range 16 {
			at = appendAll(t, store, record(t, Added{fmt.Sprint("b", k), 1}))
		}
		p := projector.New(store, m, oneByOne(laned(8)), func(ctx context.Context, x tx, e projector.Delivery) error {
			time.Sleep(time.Second)
			return add(ctx, x, e)
		})
		began := time.Now()
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Less(t, time.Since(began), 2500*time.Millisecond)
		run.stop(t)
	})
}

// The checkpoint is the lowest unfinished, whatever is done beyond it.
func TestRuleCheckpointIsTheLowestUnfinished(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		records := []event.Record{record(t, Added{"a", 1}), record(t, Added{"slow", 1}), record(t, Added{"b", 1}), record(t, Added{"c", 1})}
		at := appendAll(t, store, records...)
		hold, letGo := gate()
		defer letGo()
		p := projector.New(store, m, oneByOne(laned(4)), func(ctx context.Context, x tx, e projector.Delivery) error {
			if e.Event.(Added).Key == "slow" {
				<-hold
			}
			return add(ctx, x, e)
		})
		run := start(t, p)
		time.Sleep(time.Second)
		require.Equal(t, records[0].ID, stateOf(t, m).Checkpoint.EventID)
		require.Equal(t, map[string]string{"a": ",1", "b": ",1", "c": ",1"}, values(m))
		require.True(t, stateOf(t, m).Marked)
		letGo()
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		require.Equal(t, fold(records), values(m))
	})
}

// A worker that ends in the middle repeats nothing and loses nothing, with any
// number of lanes afterwards.
func TestRuleWhatLanesHaveDoneIsNotRepeated(t *testing.T) {
	for _, after := range []int{1, 4} {
		bubble(t, func(t *testing.T) {
			store, m := memstore.New(), memtarget.New[string]()
			records := []event.Record{record(t, Added{"slow", 1}), record(t, Added{"b", 1}), record(t, Added{"b", 2}), record(t, Added{"c", 1})}
			at := appendAll(t, store, records...)
			ctx, cancel := context.WithCancel(context.Background())
			var world sync.WaitGroup
			world.Go(func() {
				_ = projector.New(store, m, oneByOne(laned(4)), func(ctx context.Context, x tx, e projector.Delivery) error {
					if e.Event.(Added).Key == "slow" {
						<-ctx.Done()
						return ctx.Err()
					}
					return add(ctx, x, e)
				}).Run(ctx)
			})
			time.Sleep(time.Second)
			cancel()
			world.Wait()
			require.True(t, stateOf(t, m).Checkpoint.Position.IsZero())
			require.Equal(t, map[string]string{"b": ",1,2", "c": ",1"}, values(m))
			p := projector.New(store, m, laned(after), add)
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), at))
			run.stop(t)
			require.Equal(t, fold(records), values(m))
			require.False(t, stateOf(t, m).Marked)
		})
	}
}

// A failing event stops the lanes, is tried in order, and they go on.
func TestLanesWithAFailingEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		records := mixed(t, rand.New(rand.NewPCG(1, 2)), 10, 10)
		at := appendAll(t, store, records...)
		tries := 0
		p := projector.New(store, m, laned(8), func(ctx context.Context, x tx, e projector.Delivery) error {
			if e.ID == records[50].ID {
				if tries++; tries < 4 {
					return errTest
				}
			}
			return add(ctx, x, e)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		require.Equal(t, fold(records), values(m))
		require.Equal(t, 4, tries)
	})
}

// Misuse is told at once.
func TestLanesAndParkingNeedKeys(t *testing.T) {
	store, m := memstore.New(), memtarget.New[string]()
	cfg := config()
	cfg.Lanes = 2
	require.ErrorIs(t, projector.New(store, m, cfg, add).Run(t.Context()), projector.ErrMisuse)
	cfg = config()
	cfg.Failures.Then = projector.Park
	require.ErrorIs(t, projector.New(store, m, cfg, add).Run(t.Context()), projector.ErrMisuse)
	cfg.Failures.Then = "explode"
	require.ErrorIs(t, projector.New(store, m, cfg, add).Run(t.Context()), projector.ErrMisuse)
	cfg = laned(2)
	var one projector.Target[tx] = struct{ projector.Target[tx] }{m}
	require.ErrorContains(t, projector.New(store, one, cfg, add).Run(t.Context()), "one transaction after the other")
}

// Lanes of a worker that was paused share its epoch: when they wake up they
// write nothing.
func TestRuleLanesHoldTheEpochInTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		wake, wakeUp := gate()
		defer wakeUp()
		cfg := laned(3)
		cfg.BatchSize = 4
		var asleep atomic.Int32
		frozen := start(t, projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 2 {
				asleep.Add(1)
				<-wake
			}
			return add(ctx, x, d)
		}))
		var records []event.Record
		for n := range 3 {
			for _, key := range []string{"a", "b", "c"} {
				records = append(records, record(t, Added{key, n + 1}))
			}
		}
		at := appendAll(t, store, records...)
		synctest.Wait()
		require.EqualValues(t, 3, asleep.Load(), "each lane stands in a transaction")
		m.Freeze(projector.Claim{Name: name, Epoch: stateOf(t, m).Epoch})
		standby := projector.New(store, m, laned(3), add)
		active := start(t, standby)
		require.NoError(t, standby.WaitFor(short(t), at))
		wakeUp()
		synctest.Wait()
		require.Equal(t, fold(records), values(m))
		require.Equal(t, at, stateOf(t, m).Checkpoint.Position)
		require.EqualValues(t, 9, stateOf(t, m).Applied)
		active.stop(t)
		frozen.stop(t)
	})
}

// Copies of an event_id are applied once, in whatever lanes and transactions
// they are.
func TestRuleLanesCheckIDs(t *testing.T) {
	for _, size := range []int{1, 3, 100} {
		for seed := range uint64(20) {
			bubble(t, func(t *testing.T) {
				d, m := newDice(seed, 1), memtarget.New[string]()
				log := newFakeLog(mixed(t, rand.New(rand.NewPCG(seed, 0)), 5, 5)...)
				for range 25 {
					all := log.all()
					log.add(all[d.below(len(all))], all[len(all)-1])
				}
				cfg := laned(8)
				cfg.BatchSize = size
				p := projector.New(log, m, cfg, func(ctx context.Context, x tx, e projector.Delivery) error {
					time.Sleep(d.upTo(20 * time.Millisecond))
					return add(ctx, x, e)
				})
				run := start(t, p)
				all := log.all()
				require.NoError(t, p.WaitFor(short(t), all[len(all)-1].Position))
				run.stop(t)
				require.Equal(t, fold(all), values(m))
				require.EqualValues(t, 25, stateOf(t, m).Applied)
				require.True(t, stateOf(t, m).Marked, "an old event_id may come again")
			})
		}
	}
}

// lateLanes answers some Lanes with an error; they commit when land is closed.
type lateLanes struct {
	model
	late func() bool
	land chan struct{}
	left *sync.WaitGroup
}

func (l *lateLanes) Lane(ctx context.Context, claim projector.Claim, work func(projector.Batch[tx]) error) error {
	if !l.late() {
		return l.model.Lane(ctx, claim, work)
	}
	worked := make(chan struct{})
	l.left.Go(func() {
		_ = l.model.Lane(context.WithoutCancel(ctx), claim, func(b projector.Batch[tx]) error {
			err := work(b)
			close(worked)
			<-l.land
			return err
		})
	})
	<-worked
	return errTest
}

// The answer to a lane's commit is lost, and the commit lands at once, or while
// it is run again, or after the lanes have stopped: nothing is applied twice.
func TestRuleLostAnswerOfALane(t *testing.T) {
	for _, land := range []string{"at once", "later", "after the lanes have stopped", "never"} {
		t.Run(land, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, m := memstore.New(), memtarget.New[string]()
				var records []event.Record
				for n := range 30 {
					records = append(records, record(t, Added{fmt.Sprint("k", n%3), n}))
				}
				at := appendAll(t, store, records...)
				var target target = m
				var lanes atomic.Int32
				late := &lateLanes{model: m, land: make(chan struct{}), left: &sync.WaitGroup{}, late: func() bool { return lanes.Add(1) == 2 }}
				switch land {
				case "at once":
					target = stepped(m, func(_ context.Context, step string) error {
						if step == "lane done" && lanes.Add(1)%3 == 1 {
							return errTest
						}
						return nil
					})
				default:
					target = late
				}
				var stopped atomic.Bool
				p := projector.New(store, target, laned(3), func(ctx context.Context, x tx, d projector.Delivery) error {
					if d.ID == records[29].ID && land == "after the lanes have stopped" && stopped.CompareAndSwap(false, true) {
						time.AfterFunc(20*time.Millisecond, func() { close(late.land) })
						return errTest
					}
					time.Sleep(time.Millisecond)
					return add(ctx, x, d)
				})
				if land == "later" {
					time.AfterFunc(110*time.Millisecond, func() { close(late.land) })
				}
				run := start(t, p)
				require.NoError(t, projector.New(store, m, laned(3), add).WaitFor(short(t), at))
				run.stop(t)
				if land == "never" {
					close(late.land)
				}
				late.left.Wait()
				require.Equal(t, fold(records), values(m))
				require.EqualValues(t, 30, stateOf(t, m).Applied)
			})
		})
	}
}

// blindLane plays a database: the first Lane's answer is lost, and when it lands
// only the epoch and the marks that are there then can refuse it; its values
// are those of the moment when it was sent.
type blindLane struct {
	wholeSteps
	m    model
	sent chan func() error
}

func (l *blindLane) Lane(ctx context.Context, claim projector.Claim, work func(projector.Batch[tx]) error) error {
	if cap(l.sent) == 0 || len(l.sent) > 0 {
		return l.m.Lane(ctx, claim, work)
	}
	var id event.Record
	wrote := map[string]string{}
	err := l.m.Lane(ctx, claim, func(b projector.Batch[tx]) error {
		if err := work(doneBatch{b, &id}); err != nil {
			return err
		}
		wrote = maps.Collect(b.Tx().All())
		return errTest
	})
	l.sent <- func() error {
		return l.m.Lane(context.Background(), claim, func(b projector.Batch[tx]) error {
			if seen, err := b.Seen(id.ID); seen || err != nil {
				return errTest
			}
			for key, v := range wrote {
				b.Tx().Put(key, v)
			}
			return b.Done(id.ID, id.Position)
		})
	}
	return err
}

// doneBatch keeps what was marked last.
type doneBatch struct {
	projector.Batch[tx]
	last *event.Record
}

func (b doneBatch) Done(id uuid.UUID, at consistency.Position) error {
	b.last.ID, b.last.Position = id, at
	return b.Batch.Done(id, at)
}

// A lane's transaction whose answer was lost may land at any time until the name
// is claimed anew: until then its marks stand in its way, and then the epoch.
func TestRuleALateLaneMeetsMarksOrANewEpoch(t *testing.T) {
	for _, when := range []string{"release", "the end"} {
		t.Run(when, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, m := memstore.New(), memtarget.New[string]()
				target := &blindLane{m: m, sent: make(chan func() error, 1)}
				var landed atomic.Bool
				land := func() {
					if len(target.sent) > 0 && landed.CompareAndSwap(false, true) {
						require.Error(t, (<-target.sent)())
						target.sent = nil
					}
				}
				target.wholeSteps = wholeSteps{steps[tx]{m, func(_ context.Context, step string) error {
					if step == when {
						land()
					}
					return nil
				}}}
				p := projector.New[tx](store, target, laned(2), add)
				run := start(t, p)
				require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 1}))))
				time.Sleep(time.Second)
				require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 2}))))
				time.Sleep(time.Second)
				require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 3}))))
				time.Sleep(time.Second)
				land()
				require.Equal(t, list(3), values(m)["a"])
				require.True(t, landed.Load())
				run.stop(t)
				require.Equal(t, list(3), values(m)["a"])
			})
		})
	}
}

// One lost answer does not leave marks behind for the rest of the process.
func TestMarksAreDroppedAfterALostAnswerOfALane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		var lost atomic.Bool
		target := stepped(m, func(_ context.Context, step string) error {
			if step == "lane done" && lost.CompareAndSwap(false, true) {
				return errTest
			}
			return nil
		})
		p := projector.New[tx](store, target, laned(3), add)
		run := start(t, p)
		for i := range 100 {
			require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", i + 1}))))
		}
		time.Sleep(time.Second)
		ahead, err := m.Ahead(t.Context(), name, consistency.Position{})
		require.NoError(t, err)
		require.Empty(t, ahead)
		require.Equal(t, list(100), values(m)["a"])
		run.stop(t)
	})
}

// Two events fail in lanes at once; the one whose effect is not known is never
// parked because of the other.
func TestErrHoldOfALaneIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		c.infect(projector.ErrHold, 2)
		cfg := oneByOne(parks())
		cfg.Lanes = 2
		wait, goOn := gate()
		defer goOn()
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 1 {
				<-wait
			}
			return c.handle(ctx, x, d)
		})
		at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"b", 2}))
		run := start(t, p)
		synctest.Wait()
		require.Len(t, c.triesOf(2), 1)
		c.infect(errTest, 2)
		goOn()
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
		require.Equal(t, "1!", waiting(t, m))
		c.heal(2)
		require.NoError(t, p.Resume(t.Context()))
		synctest.Wait()
		require.NoError(t, p.WaitFor(short(t), at, "b"))
		run.stop(t)
	})
}

// What Run cannot work with ends it in lanes too.
func TestLanesEndWhereNothingHelps(t *testing.T) {
	for what, want := range map[string]error{"store closed": eventstore.ErrClosed, "log cut": projector.ErrForeignLog} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
				var closed atomic.Bool
				var calls atomic.Int32
				log.broken = func(string) error {
					if !closed.Load() {
						return nil
					}
					if calls.Add(1) > 1000 { // it spins: let time go on
						time.Sleep(time.Hour)
					}
					if what == "store closed" {
						return eventstore.ErrClosed
					}
					return nil
				}
				p := projector.New(log, m, laned(2), add)
				run := start(t, p)
				require.NoError(t, p.WaitFor(short(t), log.all()[2].Position))
				log.mu.Lock()
				if what == "log cut" {
					log.records = log.records[:1]
				}
				log.mu.Unlock()
				closed.Store(true)
				select {
				case err := <-run.ended:
					require.ErrorIs(t, err, want)
				case <-time.After(time.Minute):
					t.Errorf("Run goes on after %d calls", calls.Load())
				}
				require.Less(t, calls.Load(), int32(100))
			})
		})
	}
}

// An event whose keys cannot be told does not make the reader spin while the
// lanes are busy with those before it.
func TestLanesDoNotSpinAtAnEventWithoutItsKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		records := []event.Record{record(t, Added{"a", 1}), record(t, Added{"b", 1}), record(t, Added{"panic", 1})}
		log, m := newFakeLog(records...), memtarget.New[string]()
		var calls atomic.Int32
		log.broken = func(string) error {
			switch n := calls.Add(1); {
			case n < 5:
				time.Sleep(10 * time.Millisecond) // the lanes take what they can
			case n > 1000:
				time.Sleep(time.Hour)
			}
			return nil
		}
		cfg := laned(2)
		cfg.BatchSize, cfg.BatchTime = 10, time.Nanosecond
		cfg.Keys = projector.KeyFunc(func(r event.Record) []string {
			if keysOf(r)[0] == "panic" {
				panic("no key")
			}
			return keysOf(r)
		})
		p := projector.New(log, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			time.Sleep(time.Second)
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[1].Position))
		err := p.WaitFor(short(t), log.all()[2].Position)
		require.NoError(t, err, "in order the key is not needed")
		require.Less(t, calls.Load(), int32(100))
		run.stop(t)
		require.Equal(t, fold(records), values(m))
	})
}

// A word about a parked event is heeded while the projector is far behind the
// log.
func TestWordsAreHeededWhileItCatchesUp(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		bubble(t, func(t *testing.T) {
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
			cfg := parks()
			cfg.Lanes, cfg.BatchSize = lanes, 10
			p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
				time.Sleep(100 * time.Millisecond)
				return c.handle(ctx, x, d)
			})
			run := start(t, p)
			at := appendAll(t, store, record(t, Added{"a", 1}))
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
			for n := range 4000 {
				appendAll(t, store, record(t, Added{fmt.Sprint("k", n%10), 2}))
			}
			time.Sleep(time.Second)
			c.heal(1)
			_, err := p.Retry(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.NoError(t, p.WaitFor(ctx, at))
			run.stop(t)
		})
	}
}

// A slow event does not have the whole log read into memory.
func TestLanesReadAheadOnlySoFar(t *testing.T) {
	bubble(t, func(t *testing.T) {
		records := []event.Record{record(t, Added{"slow", 1})}
		for n := range 2000 {
			records = append(records, record(t, Added{fmt.Sprint("k", n%10), n}))
		}
		log, m := newFakeLog(records...), memtarget.New[string]()
		cfg := laned(2)
		cfg.BatchSize = 10
		p := projector.New(log, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).Key == "slow" {
				time.Sleep(time.Minute)
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		time.Sleep(30 * time.Second)
		ahead, err := m.Ahead(t.Context(), name, consistency.Position{})
		require.NoError(t, err)
		require.Less(t, len(ahead), 1000)
		all := log.all()
		require.NoError(t, p.WaitFor(short(t), all[len(all)-1].Position))
		require.Equal(t, fold(records), values(m))
		run.stop(t)
	})
}

// A failure that is kept of an event behind the checkpoint does not keep lanes
// from their work.
func TestLanesWorkBesideAnOldFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		p := projector.New(store, m, laned(8), func(ctx context.Context, x tx, d projector.Delivery) error {
			time.Sleep(time.Second)
			return add(ctx, x, d)
		})
		first := record(t, Added{"a", 1})
		at := appendAll(t, store, first)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		claim, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, m.Fail(t.Context(), claim, projector.Failure{Position: at, EventID: first.ID, Attempts: 1})) // it landed late
		require.NoError(t, m.Release(t.Context(), claim))
		for k := range 8 {
			at = appendAll(t, store, record(t, Added{fmt.Sprint("b", k), 1}))
		}
		run = start(t, p)
		began := time.Now()
		require.NoError(t, p.WaitFor(short(t), at))
		require.Less(t, time.Since(began), 3*time.Second)
		run.stop(t)
	})
}

// An event that fails, after others have been marked beyond it, is parked, and
// the lanes go on with what is not behind it.
func TestRuleLanesPark(t *testing.T) {
	for seed := range uint64(30) {
		bubble(t, func(t *testing.T) {
			d := newDice(seed, 1)
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest)
			cfg := parks()
			cfg.Lanes, cfg.BatchSize = 1+d.below(8), 1+d.below(10)
			var records []event.Record
			for n := 1; n <= 60; n++ {
				r := record(t, Added{fmt.Sprint("k", d.below(6)), n})
				if d.permille(200) {
					r = both(t, fmt.Sprint("k", d.below(3)), fmt.Sprint("k", 3+d.below(3)), n)
				}
				records = append(records, r)
				if d.permille(80) {
					c.infect(errTest, n)
				}
			}
			at := appendAll(t, store, records...)
			p := projector.New(store, m, cfg, func(ctx context.Context, x tx, e projector.Delivery) error {
				time.Sleep(d.upTo(20 * time.Millisecond))
				return c.handle(ctx, x, e)
			})
			run := start(t, p)
			_ = p.WaitFor(short(t), at)
			for n := 1; n <= 60; n++ {
				c.heal(n)
				_, err := p.Retry(t.Context())
				require.NoError(t, err)
			}
			require.NoError(t, p.WaitFor(short(t), at))
			run.stop(t)
			want := map[string]string{}
			for i, r := range records {
				for _, key := range keysOf(r) {
					want[key] += fmt.Sprint(",", i+1)
				}
			}
			require.Equal(t, want, values(m), "seed %d", seed)
			require.EqualValues(t, 60, stateOf(t, m).Applied)
		})
	}
}

// Events without keys are in order among themselves.
func TestRuleLanesKeepThoseWithoutKeysInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, d := memstore.New(), memtarget.New[string](), newDice(1, 1)
		cfg := laned(8)
		cfg.BatchSize, cfg.Keys = 5, projector.KeyFunc(func(event.Record) []string { return nil })
		at := appendAll(t, store, numbers(t, "a", 40)...)
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, e projector.Delivery) error {
			time.Sleep(d.upTo(20 * time.Millisecond))
			return add(ctx, x, e)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		require.Equal(t, list(40), values(m)["a"])
	})
}

// Where two events have one event_id it is the first of them that is applied,
// also if they have no key in common.
func TestRuleLanesApplyTheFirstOfAnID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := record(t, Added{"a", 1}), record(t, Added{"b", 2})
		two.ID = one.ID
		log, m := newFakeLog(one, two, record(t, Added{"c", 3})), memtarget.New[string]()
		cfg := laned(4)
		cfg.BatchTime = time.Nanosecond
		p := projector.New(log, m, cfg, func(ctx context.Context, x tx, e projector.Delivery) error {
			if e.Event.(Added).Key == "a" {
				time.Sleep(time.Second)
			} else {
				time.Sleep(time.Millisecond)
			}
			return add(ctx, x, e)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[2].Position))
		run.stop(t)
		require.Equal(t, map[string]string{"a": ",1", "c": ",3"}, values(m))
	})
}
