package projector_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// parkWorld has a model in which what is sick cannot be applied and is parked.
type parkWorld struct {
	log    *fakeLog
	m      model
	cfg    projector.Config
	sick   map[consistency.Position]bool // in live
	sicker map[consistency.Position]bool // in the rebuild
	sent   map[consistency.Position]int  // what goes beyond the model
	inRe   map[consistency.Position]int  // calls with Replay
}

func newParkWorld(t testing.TB) *parkWorld {
	w := &parkWorld{
		log: newFakeLog(), m: memtarget.New[string](), cfg: config(),
		sick: map[consistency.Position]bool{}, sicker: map[consistency.Position]bool{},
		sent: map[consistency.Position]int{}, inRe: map[consistency.Position]int{},
	}
	w.cfg.Failures.Attempts, w.cfg.Failures.Then, w.cfg.Keys = 1, projector.Park, projector.DataKeys("key")
	return w
}

func (w *parkWorld) handle(ctx context.Context, x tx, d projector.Delivery) error {
	if d.Replay {
		w.inRe[d.Position]++
		if w.sicker[d.Position] {
			return errTest
		}
		return add(ctx, x, d)
	}
	if w.sick[d.Position] {
		return errTest
	}
	w.sent[d.Position]++
	return add(ctx, x, d)
}

func (w *parkWorld) projector(t projector.Target[tx]) *projector.Projector[tx] {
	return projector.New(w.log, t, w.cfg, w.handle)
}

// settle lets the live worker do what there is to do.
func (w *parkWorld) settle(t testing.TB) {
	run := start(t, w.projector(w.m))
	synctest.Wait()
	run.stop(t)
}

func (w *parkWorld) parked(t testing.TB, settled bool) map[consistency.Position]projector.Parked {
	list, err := w.m.Parked(context.Background(), name, projector.ParkedQuery{Settled: settled})
	require.NoError(t, err)
	found := map[consistency.Position]projector.Parked{}
	for _, p := range list {
		found[p.Record.Position] = p
	}
	return found
}

// What is parked before or during a rebuild stays parked, what was retried or
// discarded, before, during, or right before the switch, is so in the new one,
// and each event has its effect once, when it is applied for the first time.
func TestRebuildWithParkedEvents(t *testing.T) {
	type change func(t *testing.T, w *parkWorld, at []consistency.Position)
	retry := func(t *testing.T, w *parkWorld, _ []consistency.Position) {
		clear(w.sick)
		_, err := w.projector(w.m).Retry(t.Context())
		require.NoError(t, err)
		w.settle(t)
	}
	discard := func(t *testing.T, w *parkWorld, at []consistency.Position) {
		require.NoError(t, w.projector(w.m).Discard(t.Context(), at[1], "no use"))
		w.settle(t)
	}
	ask := func(t *testing.T, w *parkWorld, at []consistency.Position) { // and nobody is there to do it
		require.NoError(t, w.projector(w.m).Discard(t.Context(), at[1], "no use"))
	}
	more := func(t *testing.T, w *parkWorld, _ []consistency.Position) {
		w.log.add(record(t, Added{"b", 9}), record(t, Added{"a", 9}))
		w.settle(t)
	}
	for what, change := range map[string]change{"nothing": nil, "retry": retry, "discard": discard, "ask": ask, "more": more} {
		// "next" is before anything is copied, "next switch" after all is.
		for _, when := range []string{"next", "parked", "parked done", "next apply", "next apply done", "next switch"} {
			for nth := 1; nth <= 9; nth++ {
				did := 0
				bubble(t, func(t *testing.T) {
					w := newParkWorld(t)
					w.log.add(append(numbers(t, "a", 4), numbers(t, "b", 2)...)...)
					var at []consistency.Position
					for _, r := range w.log.all() {
						at = append(at, r.Position)
					}
					w.sick[at[1]] = true
					w.settle(t)
					require.Len(t, w.parked(t, false), 3)
					gen := newGenSteps(w.m, nil)
					gen.hook = func(_ context.Context, step string) error {
						if step == when {
							if did++; did == nth && change != nil {
								change(t, w, at)
							}
						}
						return nil
					}
					_, err := projector.Rebuild(t.Context(), gen, rebuilding{}, w.projector(gen))
					require.NoError(t, err)
					if did < nth {
						return
					}
					label := fmt.Sprint(what, " at ", nth, " ", when)
					waiting, settled := w.parked(t, false), w.parked(t, true)
					var want []consistency.Position
					switch what {
					case "nothing", "ask":
						want = at[1:4]
						require.Equal(t, what == "ask", waiting[at[1]].Discard != "", label)
					case "more":
						want = append(at[1:4:4], w.log.all()[7].Position)
					case "discard":
						require.Equal(t, projector.Discarded, settled[at[1]].Outcome, label)
						require.Equal(t, "no use", settled[at[1]].Reason, label)
					}
					require.Len(t, waiting, len(want), label)
					for _, p := range want {
						require.Contains(t, waiting, p, label)
						require.False(t, waiting[p].Replay, "%s: it was never applied", label)
						require.Equal(t, p == at[1], waiting[p].Failed, label)
					}
					// Now all is made well.
					clear(w.sick)
					_, err = w.projector(w.m).Retry(t.Context())
					require.NoError(t, err)
					w.settle(t)
					require.Empty(t, w.parked(t, false), label)
					expect := fold(w.log.all())
					if what == "discard" || what == "ask" {
						expect["a"] = ",1,3,4"
					}
					require.Equal(t, expect, values(w.m), label)
					for _, r := range w.log.all() {
						n := 1
						if r.Position == at[1] && (what == "discard" || what == "ask") {
							n = 0
						}
						require.Equal(t, n, w.sent[r.Position], "%s: effects of %s", label, r.Position)
					}
				})
				if did < nth {
					break
				}
			}
		}
	}
}

// An event that was parked and applied in live, and cannot be applied again, is
// treated as the policy says, also while it only follows what live did.
func TestRebuildOfAParkedEventThatFails(t *testing.T) {
	for _, when := range []string{"next", "next switch"} {
		for _, then := range []projector.Action{projector.Halt, projector.Park, projector.Skip, "hold", "passes"} {
			bubble(t, func(t *testing.T) {
				w := newParkWorld(t)
				w.log.add(append(numbers(t, "a", 4), numbers(t, "b", 2)...)...)
				second := w.log.all()[1].Position
				w.sick[second] = true
				w.settle(t)
				gen, done := newGenSteps(w.m, nil), false
				gen.hook = func(_ context.Context, step string) error {
					if step == when && !done {
						done = true
						clear(w.sick)
						_, err := w.projector(w.m).Retry(context.Background())
						require.NoError(t, err)
						w.settle(t)
						require.Empty(t, w.parked(t, false))
					}
					return nil
				}
				before := fold(w.log.all())
				cfg := w.cfg
				cfg.Failures.Attempts, cfg.Failures.Then = 3, then
				tries := 0
				if then == "hold" || then == "passes" {
					cfg.Failures.Then = projector.Park
				}
				p := projector.New[tx](w.log, gen, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
					if d.Position == second {
						require.True(t, d.Replay)
						tries++
						switch {
						case then == "passes" && tries == 3:
						case then == "hold":
							return fmt.Errorf("%w: %w", projector.ErrHold, errTest)
						default:
							return errTest
						}
					}
					return w.handle(ctx, x, d)
				})
				rebuilt, err := projector.Rebuild(t.Context(), gen, rebuilding{Accept: welcome}, p)
				require.GreaterOrEqual(t, tries, 3)
				require.Zero(t, rebuilt.Held, "live was held for a pause between tries")
				require.LessOrEqual(t, tries, 4, "tries while live is held come on top")
				switch then {
				case projector.Halt, "hold":
					var halted *projector.HaltedError
					require.ErrorAs(t, err, &halted)
					require.Equal(t, second, halted.Failure.Position)
					require.Equal(t, "Added", halted.Failure.Type)
					require.Equal(t, before, values(w.m))
					return
				case projector.Park:
					require.NoError(t, err)
					parked := w.parked(t, false)
					require.Len(t, parked, 3)
					for _, p := range parked {
						require.True(t, p.Replay)
					}
					_, err = w.projector(w.m).Retry(t.Context())
					require.NoError(t, err)
					w.settle(t)
					require.Empty(t, w.parked(t, false))
					require.Equal(t, before, values(w.m))
				case projector.Skip:
					require.NoError(t, err)
					require.Equal(t, ",1,3,4", values(w.m)["a"])
					require.EqualValues(t, 1, stateOf(t, w.m).Skipped)
				case "passes":
					require.NoError(t, err)
					require.Equal(t, before, values(w.m))
				}
				for _, r := range w.log.all() {
					require.Equal(t, 1, w.sent[r.Position], "what was done in live is not done again")
				}
			})
		}
	}
}

// Other keys: what waits behind what is decided by the new program.
func TestRebuildWithOtherKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newParkWorld(t)
		w.log.add(append(numbers(t, "a", 2), numbers(t, "b", 2)...)...)
		w.sick[w.log.all()[1].Position] = true
		w.settle(t)
		require.Len(t, w.parked(t, false), 1)
		w.cfg.Keys = projector.KeyFunc(func(event.Record) []string { return []string{"all"} })
		_, err := projector.Rebuild(t.Context(), w.m, rebuilding{Accept: welcome}, w.projector(w.m))
		require.NoError(t, err)
		parked := w.parked(t, false)
		require.Len(t, parked, 3)
		for _, r := range w.log.all()[1:] {
			require.Equal(t, []string{"all"}, parked[r.Position].Keys)
			require.Equal(t, r.Position != w.log.all()[1].Position, parked[r.Position].Replay)
		}
		clear(w.sick)
		_, err = w.projector(w.m).Retry(t.Context())
		require.NoError(t, err)
		w.settle(t)
		require.Equal(t, fold(w.log.all()), values(w.m))
		for _, r := range w.log.all() {
			require.Equal(t, 1, w.sent[r.Position])
		}

		w.sick[w.log.add(record(t, Added{"a", 3}))] = true
		w.settle(t)
		w.cfg.Keys, w.cfg.Failures.Then = nil, projector.Halt
		_, err = projector.Rebuild(t.Context(), w.m, rebuilding{}, w.projector(w.m))
		isMisuse(t, err, "1 events are parked")
	})
}

// An event that was parked twice over, by live and by a rebuild of it, and that a
// second rebuild meets.
func TestRebuildOfARebuild(t *testing.T) {
	for _, when := range []string{"never", "next", "next switch"} {
		bubble(t, func(t *testing.T) {
			w := newParkWorld(t)
			w.log.add(numbers(t, "a", 3)...)
			w.settle(t)
			second := w.log.all()[1].Position
			w.sicker[second] = true
			_, err := projector.Rebuild(t.Context(), w.m, rebuilding{Accept: welcome}, w.projector(w.m))
			require.NoError(t, err)
			require.Len(t, w.parked(t, false), 2)
			gen, done := newGenSteps(w.m, nil), false
			gen.hook = func(_ context.Context, step string) error {
				if step == when && !done {
					done = true
					clear(w.sicker)
					_, err := w.projector(w.m).Retry(context.Background())
					require.NoError(t, err)
					w.settle(t)
				}
				return nil
			}
			_, err = projector.Rebuild(t.Context(), gen, rebuilding{}, w.projector(gen))
			require.NoError(t, err)
			clear(w.sicker)
			_, err = w.projector(w.m).Retry(t.Context())
			require.NoError(t, err)
			w.settle(t)
			require.Empty(t, w.parked(t, false))
			require.Equal(t, fold(w.log.all()), values(w.m))
			for _, r := range w.log.all() {
				require.Equal(t, 1, w.sent[r.Position])
			}
		})
	}
}

// A log that holds event_ids twice: the second copy of a parked event is passed
// over in the new generation too.
func TestRebuildPassesSecondCopies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newParkWorld(t)
		all := numbers(t, "a", 3)
		w.log.add(all[0], all[1], all[1], all[2], all[0], all[2])
		w.sick[w.log.all()[1].Position], w.sick[w.log.all()[2].Position] = true, true
		w.settle(t)
		_, err := projector.Rebuild(t.Context(), w.m, rebuilding{}, w.projector(w.m))
		require.NoError(t, err)
		require.Len(t, w.parked(t, false), 2)
		clear(w.sick)
		_, err = w.projector(w.m).Retry(t.Context())
		require.NoError(t, err)
		w.settle(t)
		require.Equal(t, map[string]string{"a": list(3)}, values(w.m))
	})
}

// What lanes have done beyond the checkpoint is not done once more.
func TestRebuildBesideLanes(t *testing.T) {
	for _, unique := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			w := newParkWorld(t)
			w.log.features.UniqueEventIDs = unique
			w.log.add(numbers(t, "a", 3)...)
			w.log.add(append(numbers(t, "b", 3), numbers(t, "c", 3)...)...)
			w.cfg.Lanes, w.cfg.BatchSize, w.cfg.BatchTime = 3, 10, time.Millisecond // one event per transaction
			stuck := make(chan struct{})
			defer func() { // also when the test has failed
				select {
				case <-stuck:
				default:
					close(stuck)
				}
			}()
			sent := map[uuid.UUID]int{}
			var mu sync.Mutex
			p := projector.New(w.log, w.m, w.cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
				if d.Event.(Added).Key == "a" && d.Event.(Added).N == 2 && !d.Replay {
					<-stuck
				}
				time.Sleep(time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if !d.Replay && ctx.Err() == nil {
					sent[d.ID]++
				}
				return add(ctx, x, d)
			})
			run := start(t, p)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, map[string]string{"a": ",1", "b": list(3), "c": list(3)}, values(w.m), "lanes are ahead")
			require.Equal(t, w.log.all()[0].Position, stateOf(t, w.m).Checkpoint.Position)
			_, err := projector.Rebuild(t.Context(), w.m, rebuilding{}, projector.New(w.log, w.m, w.cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
				require.True(t, d.Replay)
				return add(ctx, x, d)
			}))
			require.NoError(t, err)
			close(stuck)
			require.NoError(t, p.WaitFor(short(t), w.log.add(record(t, Added{"d", 1}))))
			run.stop(t)
			require.Equal(t, fold(w.log.all()), values(w.m))
			for _, r := range w.log.all() {
				if e, _ := codec.Decode(r); e.(Added).Key != "a" {
					require.Equal(t, 1, sent[r.ID], "%v", e)
				}
			}
		})
	}
}
