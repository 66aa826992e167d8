package projector_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A corrected handler: differences are refused, then accepted; the workers go on
// in the new generation, and the old one is there until it is dropped.
func TestRebuildWithACorrectedHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 20)...), memtarget.New[string]()
		log.add(record(t, Strange{"a"}))
		live(t, log, m, config(), wrong)
		before, was := values(m), stateOf(t, m)
		p := projector.New(log, m, config(), add)
		run := start(t, p)
		synctest.Wait()

		done, err := projector.Rebuild(t.Context(), m, rebuilding{Tag: "corrected"}, p)
		var differs *projector.DiffersError
		require.ErrorAs(t, err, &differs)
		require.ErrorIs(t, err, projector.ErrDiffers)
		require.Len(t, differs.Differences, 1)
		require.Equal(t, differs.Differences, done.Differences)
		require.ErrorContains(t, err, "values: 1 only in the live one, 1 only in the new one")
		require.False(t, done.Switched)
		require.EqualValues(t, 20, done.Events)
		require.Equal(t, before, values(m), "it was switched although it differs")
		require.Equal(t, was.Checkpoint, stateOf(t, m).Checkpoint)

		_, err = projector.Rebuild(t.Context(), m, rebuilding{Tag: "corrected", Accept: func(d []projector.Difference) error {
			require.Equal(t, differs.Differences, d)
			return errTest
		}}, p)
		require.ErrorIs(t, err, projector.ErrDiffers)
		require.ErrorIs(t, err, errTest)

		done, err = projector.Rebuild(t.Context(), m, rebuilding{Tag: "corrected", Accept: welcome}, p)
		require.NoError(t, err)
		require.True(t, done.Switched)
		require.Zero(t, done.Events, "it was all there already")
		require.Equal(t, map[string]string{"a": list(20)}, values(m))
		require.NoError(t, p.WaitFor(short(t), log.add(record(t, Added{"a", 21}))))
		require.Equal(t, map[string]string{"a": list(21)}, values(m))
		run.stop(t)
		n, err := m.Drop(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)

		done, err = projector.Rebuild(t.Context(), m, rebuilding{}, p)
		require.NoError(t, err, "an equal model needs nobody's consent")
		require.EqualValues(t, 21, done.Events, "a generation that was switched to is not resumed")
	})
}

// The parity command: it compares at one checkpoint while all goes on, keeps what
// it has built for the next time, and switches to nothing.
func TestCompareOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 20)...), memtarget.New[string]()
		p := projector.New(log, m, config(), add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[19].Position))
		epoch := stateOf(t, m).Epoch
		said := &told{t: t}
		cfg := rebuilding{CompareOnly: true, Progress: said.hear}
		done, err := projector.Rebuild(t.Context(), m, cfg, p)
		require.NoError(t, err)
		require.False(t, done.Switched)
		require.EqualValues(t, 20, done.Events)
		require.Equal(t, projector.Compared, said.list[len(said.list)-1].Phase)
		require.NoError(t, p.WaitFor(short(t), log.add(numbers(t, "b", 3)...)))
		done, err = projector.Rebuild(t.Context(), m, cfg, p)
		require.NoError(t, err)
		require.EqualValues(t, 3, done.Events)
		require.EqualValues(t, 23, said.list[len(said.list)-1].Done, "with those that were there already")
		require.Equal(t, epoch, stateOf(t, m).Epoch, "the live worker was disturbed")

		run.stop(t)
		c, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		s := stateOf(t, m)
		require.NoError(t, m.Apply(t.Context(), c, s.Checkpoint, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
			b.Tx().Put("a", "by hand")
			return s.Checkpoint, nil
		}))
		_, err = projector.Rebuild(t.Context(), m, cfg, p)
		require.ErrorIs(t, err, projector.ErrDiffers)
		require.ErrorContains(t, err, "by hand")
		cfg.Compare = func(_ context.Context, next generation) ([]projector.Difference, error) {
			v, _ := next.(*memtarget.Generation[string]).Get("a")
			require.Equal(t, list(20), v)
			return nil, nil
		}
		_, err = projector.Rebuild(t.Context(), m, cfg, p)
		require.NoError(t, err)
		cfg.Compare = func(context.Context, generation) ([]projector.Difference, error) { return nil, errTest }
		_, err = projector.Rebuild(t.Context(), m, cfg, p)
		require.ErrorIs(t, err, errTest)
	})
}

// A live worker that applies and a writer that writes during all of it: nothing
// goes beyond the model for what lies below the switch, exactly once for the rest.
func TestRebuildBesideALiveWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 200)...), memtarget.New[string]()
		cfg := config()
		cfg.BatchSize = 7
		var mu sync.Mutex
		sent, replays := map[consistency.Position]int{}, map[consistency.Position]int{}
		handler := func(ctx context.Context, x tx, d projector.Delivery) error {
			time.Sleep(3 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if d.Replay {
				replays[d.Position]++
			} else {
				sent[d.Position]++
			}
			return add(ctx, x, d)
		}
		p := projector.New(log, m, cfg, handler)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[199].Position))
		writing := make(chan struct{})
		var waits sync.WaitGroup
		go func() {
			defer close(writing)
			for i := range 300 {
				at := log.add(record(t, Added{"b", i + 1}))
				time.Sleep(5 * time.Millisecond)
				waits.Go(func() { // over the switch too
					if err := p.WaitFor(short(t), at); err != nil {
						t.Error(err)
					}
				})
			}
		}()
		said := &told{t: t}
		done, err := projector.Rebuild(t.Context(), m, rebuilding{Progress: said.hear}, p)
		require.NoError(t, err)
		require.True(t, done.Switched)
		require.Less(t, done.Held, 500*time.Millisecond)
		select {
		case <-writing:
			t.Fatal("the rebuild was no race")
		default:
		}
		<-writing
		waits.Wait()
		require.NoError(t, p.WaitFor(short(t), log.all()[499].Position))
		run.stop(t)
		require.Equal(t, fold(log.all()), values(m))
		last := said.list[len(said.list)-1]
		require.Equal(t, projector.Switched, last.Phase)
		for i, r := range log.all() {
			if !r.Position.After(last.Position) {
				require.Equal(t, 1, replays[r.Position], "event %d is below the switch", i)
			} else {
				require.Zero(t, replays[r.Position], "event %d is above the switch", i)
			}
			// What a batch did that was rolled back by the switch is done once more.
			if sent[r.Position] != 1 && (sent[r.Position] > 2 || !r.Position.After(last.Position)) {
				t.Errorf("event %d has had %d effects", i, sent[r.Position])
			}
		}
		for i, p := range said.list {
			if i > 0 {
				require.False(t, said.list[i-1].Position.After(p.Position))
			}
			if i > 0 && p.Phase == projector.Building {
				require.GreaterOrEqual(t, said.when[i].Sub(said.when[i-1]), 200*time.Millisecond)
			}
		}
		require.InDelta(t, 1/0.003, last.Rate, 40)
		require.Greater(t, len(said.list), 3)
		require.NotZero(t, said.list[1].Left)
	})
}

// It is resumed after an end at any step, and does not start over. Only where the
// answer to the switch itself is lost nothing is left to resume.
func TestRebuildIsKilledAtAnyStep(t *testing.T) {
	const n = 12
	for _, death := range []bool{false, true} {
		happened := map[string]bool{}
		for left := 1; ; left++ {
			at := &moment{left: left}
			bubble(t, func(t *testing.T) {
				log, m := newFakeLog(numbers(t, "a", n)...), memtarget.New[string]()
				live(t, log, m, config(), wrong)
				ctx, cancel := context.WithCancel(t.Context())
				dead := false
				at.do = func(context.Context, string) error {
					cancel()
					if death {
						dead = true
						return errKilled
					}
					return nil
				}
				gen := newGenSteps(m, func(ctx context.Context, step string) error {
					if dead {
						return errKilled
					}
					return at.hook(ctx, step)
				})
				applied := 0
				handler := func(ctx context.Context, x tx, d projector.Delivery) error {
					require.True(t, d.Replay)
					applied++
					return add(ctx, x, d)
				}
				cfg := rebuilding{Tag: "one", Accept: welcome}
				_, err := projector.Rebuild(ctx, gen, cfg, projector.New[tx](log, gen, config(), handler))
				cancel()
				switched := values(m)["a"] == list(n)
				switch {
				case at.happened() == "":
					require.NoError(t, err)
					require.True(t, switched)
					return
				case err == nil:
					require.True(t, switched)
					return
				}
				require.ErrorIs(t, err, context.Canceled)
				if switched {
					require.Equal(t, "next switch done", at.happened())
					return
				}
				require.Equal(t, map[string]string{"a": ";1;2;3;4;5;6;7;8;9;10;11;12"}, values(m))
				time.Sleep(11 * time.Second)
				done, err := projector.Rebuild(t.Context(), m, cfg, projector.New(log, m, config(), handler))
				require.NoError(t, err, "after an end at step %d, %s", left, at.happened())
				require.Equal(t, map[string]string{"a": list(n)}, values(m), "after an end at step %d, %s", left, at.happened())
				require.LessOrEqual(t, applied, n+1, "after an end at step %d, %s it started over", left, at.happened())
				require.LessOrEqual(t, done.Events, int64(n))
			})
			if at.happened() == "" {
				break
			}
			happened[at.happened()] = true
		}
		for _, step := range []string{
			"names", "next done", "next claim", "next claim done", "state", "next state", "parked", "next apply", "next work", "next apply done",
			"next switch", "next held", "next compare", "next ready", "next switch done", "next release",
		} {
			require.True(t, happened[step], "nothing happened at step %q", step)
		}
	}
}

// An error before or after any call of the target is waited out.
func TestRebuildWithAnErrorAtEachStep(t *testing.T) {
	happened := map[string]bool{}
	for left := 1; ; left++ {
		at := &moment{left: left, do: func(context.Context, string) error { return errTest }}
		bubble(t, func(t *testing.T) {
			log, m := newFakeLog(numbers(t, "a", 5)...), memtarget.New[string]()
			live(t, log, m, config(), add)
			gen := newGenSteps(m, at.hook)
			p := projector.New[tx](log, gen, config(), add)
			_, err := projector.Rebuild(t.Context(), gen, rebuilding{Tag: "one"}, p)
			switch at.happened() {
			case "next compare", "next compare done", "next ready": // the test's own, or nobody knows whether it helps
				require.ErrorIs(t, err, errTest, "an error at step %d, %s", left, at.happened())
			case "next switch done":
				require.ErrorIs(t, err, errTest)
				require.ErrorContains(t, err, "it is open which generation is live")
			case "next claim done":
				// A claim that nobody knows of: its lease ends with the process.
				require.ErrorIs(t, err, projector.ErrHeld)
			default:
				require.NoError(t, err, "an error at step %d, %s", left, at.happened())
			}
			require.Equal(t, fold(log.all()), values(m))
		})
		if at.happened() == "" {
			break
		}
		happened[at.happened()] = true
	}
	require.True(t, happened["next apply done"])
}

// What cannot be applied ends it with its name, position and reason, and the live
// model knows nothing of it.
func TestRebuildHalts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 5)...), memtarget.New[string]()
		live(t, log, m, config(), add)
		before, was := values(m), stateOf(t, m)
		cfg := config()
		cfg.Failures.Attempts = 4
		var attempts []int
		fails := func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 3 {
				attempts = append(attempts, d.Attempt)
				return errTest
			}
			return add(ctx, x, d)
		}
		began := time.Now()
		_, err := projector.Rebuild(t.Context(), m, rebuilding{Tag: "one"}, projector.New(log, m, cfg, fails))
		require.Less(t, time.Since(began), 2*time.Second, "it waits for the slow retry")
		var halted *projector.HaltedError
		require.ErrorAs(t, err, &halted)
		third := log.all()[2]
		require.Equal(t, name, halted.Name)
		require.Equal(t, third.Position, halted.Failure.Position)
		require.Equal(t, third.ID, halted.Failure.EventID)
		require.ErrorContains(t, err, errTest.Error())
		require.ErrorContains(t, err, `"Added"`)
		require.Equal(t, []int{1, 2, 3, 4}, attempts)
		require.Equal(t, before, values(m))
		require.Equal(t, was, stateOf(t, m))
		_, next := peek(t, m, "one")
		require.Equal(t, log.all()[1].Position, next.Checkpoint.Position)
		require.False(t, next.Held)

		_, err = projector.Rebuild(t.Context(), m, rebuilding{Tag: "one"}, projector.New(log, m, cfg, fails))
		require.ErrorAs(t, err, &halted)
		require.Equal(t, []int{1, 2, 3, 4, 5}, attempts, "once more, at once")

		done, err := projector.Rebuild(t.Context(), m, rebuilding{Tag: "one"}, projector.New(log, m, cfg, add))
		require.NoError(t, err)
		require.EqualValues(t, 3, done.Events)
		require.Equal(t, list(5), values(m)["a"])
		require.Equal(t, projector.Failure{}, stateOf(t, m).Failure)
	})
}

// Skip and Park hold for a rebuild too.
func TestRebuildObeysThePolicy(t *testing.T) {
	for _, then := range []projector.Action{projector.Skip, projector.Park} {
		bubble(t, func(t *testing.T) {
			log, m := newFakeLog(append(numbers(t, "a", 3), numbers(t, "b", 2)...)...), memtarget.New[string]()
			live(t, log, m, config(), add)
			cfg := config()
			cfg.Failures.Attempts, cfg.Failures.Then, cfg.Keys = 2, then, projector.DataKeys("key")
			var mended bool
			p := projector.New(log, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
				require.True(t, d.Replay, "it was applied in live")
				if d.Event.(Added).N == 2 && d.Event.(Added).Key == "a" && !mended {
					return errTest
				}
				return add(ctx, x, d)
			})
			_, err := projector.Rebuild(t.Context(), m, rebuilding{Accept: welcome}, p)
			require.NoError(t, err)
			s := stateOf(t, m)
			if then == projector.Skip {
				require.Equal(t, map[string]string{"a": ",1,3", "b": ",1,2"}, values(m))
				require.EqualValues(t, 1, s.Skipped)
				return
			}
			require.Equal(t, map[string]string{"a": ",1", "b": ",1,2"}, values(m))
			require.Equal(t, 2, s.Parked)
			mended = true
			run := start(t, p)
			_, err = p.Retry(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, p.WaitFor(short(t), log.all()[4].Position))
			require.Equal(t, fold(log.all()), values(m))
			run.stop(t)
		})
	}
}

// Who is left out of a rebuild would be lost with the old generation.
func TestRebuildRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
		other := config()
		other.Name, other.Boundary = "other", "shop"
		live(t, log, m, config(), add)
		live(t, log, m, other, add)
		before := values(m)
		p, o := projector.New(log, m, config(), add), projector.New(log, m, other, add)
		rebuild := func(cfg rebuilding, ps ...*projector.Projector[tx]) error {
			_, err := projector.Rebuild(t.Context(), m, cfg, ps...)
			return err
		}
		isMisuse(t, rebuild(rebuilding{}, p), "other/shop")
		isMisuse(t, rebuild(rebuilding{}), "no projector")
		isMisuse(t, rebuild(rebuilding{}, p, nil), "nil")
		isMisuse(t, rebuild(rebuilding{}, p, o, p), "sums/default", "twice")
		isMisuse(t, rebuild(rebuilding{}, p, projector.New(log, memtarget.New[string](), other, add)), "other/shop", "another target")
		isMisuse(t, rebuild(rebuilding{}, p, projector.New(log, m, projector.Config{}, add)))
		isMisuse(t, rebuild(rebuilding{Tag: "\x00"}, p, o), "Tag")
		_, err := projector.Rebuild(t.Context(), (model)(nil), rebuilding{}, p)
		isMisuse(t, err)
		require.Equal(t, before, values(m))

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = projector.Rebuild(ended, m, rebuilding{}, p, o)
		require.ErrorIs(t, err, context.Canceled)

		// One that comes while it builds.
		third := config()
		third.Name = "third"
		once := false
		_, err = projector.Rebuild(t.Context(), m, rebuilding{Accept: welcome}, p, projector.New(log, m, other, func(ctx context.Context, x tx, d projector.Delivery) error {
			if !once {
				once = true
				live(t, log, m, third, func(context.Context, tx, projector.Delivery) error { return nil })
			}
			return add(ctx, x, d)
		}))
		isMisuse(t, err, "third/default")

		fourth := config()
		fourth.Name = "fourth"
		_, err = projector.Rebuild(t.Context(), m, rebuilding{Accept: welcome}, p, o, projector.New(log, m, third, add), projector.New(log, m, fourth, add))
		require.NoError(t, err, "one that was never used is no matter")
	})
}

// Of two rebuilds of a tag one builds.
func TestRebuildWhileAnotherRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
		live(t, log, m, config(), add)
		inside, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ended := make(chan error, 1)
		go func() {
			_, err := projector.Rebuild(t.Context(), m, rebuilding{}, projector.New(log, m, config(), func(ctx context.Context, x tx, d projector.Delivery) error {
				once.Do(func() { close(inside); <-goOn })
				return add(ctx, x, d)
			}))
			ended <- err
		}()
		<-inside
		_, err := projector.Rebuild(t.Context(), m, rebuilding{}, projector.New(log, m, config(), add))
		require.ErrorIs(t, err, projector.ErrHeld)
		require.ErrorContains(t, err, "another rebuild")
		close(goOn)
		require.NoError(t, <-ended)
	})
}

// Projectors of several logs in one model are switched together.
func TestRebuildOfSeveralProjectors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := memtarget.New[string]()
		var ps []*projector.Projector[tx]
		var runs []*running
		var logs []*fakeLog
		for i := range 3 {
			key := fmt.Sprint("k", i)
			log := newFakeLog(numbers(t, key, 10*i)...)
			log.features.Log = uuid.New()
			cfg := config()
			cfg.Name, cfg.Boundary = "p", key
			p := projector.New(log, m, cfg, add)
			ps, runs, logs = append(ps, p), append(runs, start(t, p)), append(logs, log)
		}
		synctest.Wait()
		said := &told{t: t}
		done, err := projector.Rebuild(t.Context(), m, rebuilding{Progress: said.hear}, ps...)
		require.NoError(t, err)
		require.EqualValues(t, 30, done.Events)
		require.Equal(t, map[string]string{"k1": list(10), "k2": list(20)}, values(m))
		for i, p := range ps {
			require.Equal(t, projector.Switched, said.list[len(said.list)-3+i].Phase)
			require.NoError(t, p.WaitFor(short(t), logs[i].add(record(t, Added{"new", i}))))
			runs[i].stop(t)
		}
		require.Equal(t, ",0,1,2", values(m)["new"])
	})
}

// A projector that is halted, and what somebody has said about that, goes over
// to the new generation as it is.
func TestRebuildOfAHaltedProjector(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
		cfg := config()
		cfg.Failures.Attempts, cfg.Keys = 2, projector.DataKeys("key")
		p := projector.New(log, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 2 {
				require.False(t, d.Replay)
				return errTest
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), log.all()[2].Position), projector.ErrHalted)
		_, err := projector.Rebuild(t.Context(), m, rebuilding{}, p)
		require.NoError(t, err)
		require.ErrorIs(t, p.WaitFor(short(t), log.all()[2].Position), projector.ErrHalted)
		run.stop(t)
		require.NoError(t, p.Discard(t.Context(), log.all()[1].Position, "no use"))
		_, err = projector.Rebuild(t.Context(), m, rebuilding{}, p)
		require.NoError(t, err)
		run = start(t, p)
		synctest.Wait()
		require.NoError(t, p.WaitFor(short(t), log.all()[2].Position), "the word was lost")
		run.stop(t)
		require.Equal(t, ",1,3", values(m)["a"])

		// What was passed over stays so, with the reason.
		_, err = projector.Rebuild(t.Context(), m, rebuilding{}, p)
		require.NoError(t, err)
		discarded, err := p.Parked(t.Context(), projector.ParkedQuery{Settled: true})
		require.NoError(t, err)
		require.Len(t, discarded, 1)
		require.Equal(t, "no use", discarded[0].Reason)
	})
}

// A log that the model was not made from rebuilds nothing.
func TestRebuildFromAForeignLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 5)...), memtarget.New[string]()
		live(t, log, m, config(), add)
		for i, foreign := range []*fakeLog{newFakeLog(), newFakeLog(numbers(t, "a", 4)...), newFakeLog(numbers(t, "a", 9)...)} {
			_, err := projector.Rebuild(t.Context(), m, rebuilding{Tag: fmt.Sprint(i)}, projector.New(foreign, m, config(), add))
			require.ErrorIs(t, err, projector.ErrForeignLog)
		}
		require.Equal(t, list(5), values(m)["a"])
	})
}

// Live is not held up for long: not for an event that has to be tried again, nor
// for many.
func TestRebuildHoldsLiveForAShortTimeOnly(t *testing.T) {
	for _, what := range []string{"fails", "slow"} {
		bubble(t, func(t *testing.T) {
			log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
			live(t, log, m, config(), add)
			held, tries := 0, 0
			var since time.Time
			var longest time.Duration
			gen := newGenSteps(m, func(_ context.Context, step string) error {
				switch step {
				case "next held":
					since = time.Now()
					held++
				case "next switch done":
					longest = max(longest, time.Since(since))
				case "next switch":
					if held == 0 { // they come right before
						log.add(numbers(t, "c", 8)...)
						live(t, log, m, config(), add)
					}
				}
				return nil
			})
			p := projector.New[tx](log, gen, config(), func(ctx context.Context, x tx, d projector.Delivery) error {
				if d.Event.(Added).Key == "c" && what == "slow" {
					time.Sleep(time.Second)
				}
				if d.Event.(Added).Key == "c" && what == "fails" {
					if tries++; tries < 8 {
						return errTest
					}
				}
				return add(ctx, x, d)
			})
			done, err := projector.Rebuild(t.Context(), gen, rebuilding{HoldLimit: 2 * time.Second}, p)
			require.NoError(t, err)
			require.Greater(t, held, 1)
			require.Less(t, longest, 4*time.Second)
			if what == "fails" {
				require.Zero(t, longest)
			}
			require.GreaterOrEqual(t, done.Held, longest)
			require.Equal(t, list(8), values(m)["c"])
		})
	}
}
