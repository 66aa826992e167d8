package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Discard ends the wait of an event for good, with the reason kept; those behind
// it follow. Words are heeded whenever the next worker comes.
func TestDiscard(t *testing.T) {
	for _, running := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
			p := projector.New(store, m, parks(), c.handle)
			run := start(t, p)
			first := appendAll(t, store, record(t, Added{"a", 1}))
			at := appendAll(t, store, record(t, Added{"a", 2}), record(t, Added{"a", 3}))
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
			if !running {
				run.stop(t)
			}
			require.NoError(t, projector.New(store, m, parks(), c.handle).Discard(t.Context(), first, "a mistake"))
			synctest.Wait()
			if !running {
				require.Empty(t, values(m))
				run = start(t, p)
			}
			require.NoError(t, p.WaitFor(short(t), at))
			require.Equal(t, map[string]string{"a": ",2,3"}, values(m))
			require.Equal(t, []int{1}, c.triesOf(1))
			list, err := p.Parked(t.Context(), projector.ParkedQuery{Settled: true, Key: "a"})
			require.NoError(t, err)
			require.Len(t, list, 3)
			require.Equal(t, projector.Discarded, list[0].Outcome)
			require.Equal(t, "a mistake", list[0].Reason)
			require.Equal(t, errTest.Error(), list[0].Error)
			require.Equal(t, now(), list[0].Settled)
			require.Equal(t, projector.Applied, list[1].Outcome)
			require.ErrorIs(t, p.Discard(t.Context(), first, "again"), projector.ErrNotParked)
			run.stop(t)
		})
	}
}

// One that waits in the middle is discarded without disturbing the order.
func TestDiscardInTheMiddle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		p := projector.New(store, m, parks(), c.handle)
		run := start(t, p)
		appendAll(t, store, record(t, Added{"a", 1}))
		middle := appendAll(t, store, both(t, "a", "b", 2))
		at := appendAll(t, store, record(t, Added{"a", 3}), record(t, Added{"b", 4}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.Equal(t, "1!, 2, 3, 4", waiting(t, m))
		require.NoError(t, p.Discard(t.Context(), middle, "not needed"))
		synctest.Wait()
		require.Equal(t, "1!, 3", waiting(t, m))
		require.Equal(t, map[string]string{"b": ",4"}, values(m), "what waited for that one only follows")
		require.Equal(t, []int{1}, c.triesOf(1), "nobody asked for the one before it")
		c.heal(1)
		_, err := p.Retry(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Equal(t, map[string]string{"a": ",1,3", "b": ",4"}, values(m))
		run.stop(t)
	})
}

// Discard at the position of the event that the projector is halted at passes it
// over, and keeps it, with the reason.
func TestDiscardOfAHaltedEvent(t *testing.T) {
	for _, how := range []string{"running", "stopped", "without keys", "others parked", "lanes"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
				cfg := parks()
				cfg.Failures.Then = projector.Halt
				switch how {
				case "lanes":
					cfg.Lanes = 4
				case "without keys":
					cfg.Keys = nil
				case "others parked":
					c.infect(errPermanent, 3)
					cfg.Failures.Judge = func(err error) projector.Rule {
						if errors.Is(err, errPermanent) {
							return projector.Rule{Then: projector.Park}
						}
						return projector.Rule{}
					}
				}
				p := projector.New(store, m, cfg, c.handle)
				run := start(t, p)
				appendAll(t, store, record(t, Added{"c", 3}), record(t, Added{"c", 4}))
				first := appendAll(t, store, record(t, Added{"a", 1}))
				at := appendAll(t, store, record(t, Added{"a", 2}))
				require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
				require.ErrorIs(t, p.Discard(t.Context(), at, "not this one"), projector.ErrNotParked)
				if how == "stopped" {
					run.stop(t)
				}
				require.NoError(t, p.Discard(t.Context(), first, "a mistake"))
				if how == "stopped" {
					c.heal(1) // it is not tried any more, though it could be applied
					run = start(t, p)
				}
				synctest.Wait()
				require.NoError(t, p.WaitFor(short(t), at, "a"))
				require.Equal(t, ",2", values(m)["a"])
				require.Equal(t, []int{1}, c.triesOf(1))
				s := stateOf(t, m)
				require.EqualValues(t, 1, s.Skipped)
				require.Zero(t, s.Failure)
				list, err := p.Parked(t.Context(), projector.ParkedQuery{Settled: true})
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, "a mistake", list[0].Reason)
				require.Equal(t, projector.Discarded, list[0].Outcome)
				require.Equal(t, first, list[0].Record.Position)
				run.stop(t)
			})
		})
	}
}

// Resume has a halted event tried at once; where nothing stands in the way it
// does nothing.
func TestResume(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		cfg := parks()
		cfg.Failures.Then = projector.Halt
		p := projector.New(store, m, cfg, c.handle)
		require.NoError(t, p.Resume(t.Context()))
		run := start(t, p)
		at := appendAll(t, store, record(t, Added{"a", 1}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
		synctest.Wait()
		tries := len(c.triesOf(1))
		require.NoError(t, p.Resume(t.Context()))
		synctest.Wait()
		require.Len(t, c.triesOf(1), tries+1)
		c.heal(1)
		began := time.Now()
		require.NoError(t, projector.New(store, m, cfg, c.handle).Resume(t.Context()))
		synctest.Wait()
		require.NoError(t, p.WaitFor(short(t), at))
		require.Zero(t, time.Since(began))
		run.stop(t)
	})
}

// Retry asks for those that failed only, and says how many those are.
func TestRetryAsksForTheFailedOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1, 2, 3)
		p := projector.New(store, m, parks(), c.handle)
		asked, err := p.Retry(t.Context())
		require.NoError(t, err)
		require.Zero(t, asked)
		at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"a", 9}), both(t, "b", "c", 2), record(t, Added{"d", 3}))
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		run.stop(t)
		for _, c := range []struct {
			keys []string
			want int
		}{{nil, 3}, {[]string{"a"}, 1}, {[]string{"b", "c", "b"}, 1}, {[]string{"a", "d"}, 2}, {[]string{"e"}, 0}} {
			asked, err := p.Retry(t.Context(), c.keys...)
			require.NoError(t, err)
			require.Equal(t, c.want, asked, "%q", c.keys)
		}
		require.Equal(t, []int{1}, c.triesOf(1))
		run = start(t, p)
		synctest.Wait()
		require.Equal(t, []int{1, 2}, c.triesOf(1), "words given twice before anybody hears them are one")
		run.stop(t)
	})
}

// More events wait than one page of Retry or of the worker holds.
func TestRetryOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(nil)
		p := projector.New(store, m, parks(), c.handle)
		var at consistency.Position
		for n := range 250 {
			c.infect(errTest, n)
			at = appendAll(t, store, record(t, Added{fmt.Sprint("k", n), n}), record(t, Added{fmt.Sprint("k", n), 1000}))
		}
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.Equal(t, 500, stateOf(t, m).Parked)
		for n := range 250 {
			c.heal(n)
		}
		asked, err := p.Retry(t.Context())
		require.NoError(t, err)
		require.Equal(t, 250, asked)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Equal(t, ",7,1000", values(m)["k7"])
		run.stop(t)
	})
}

func TestWordsThatAreMisuse(t *testing.T) {
	store, m := memstore.New(), memtarget.New[string]()
	p := projector.New(store, m, parks(), add)
	at := consistency.NewPosition(0, 1)
	require.ErrorIs(t, p.Discard(t.Context(), at, ""), projector.ErrMisuse)
	require.ErrorIs(t, p.Discard(t.Context(), consistency.Position{}, "why"), projector.ErrMisuse)
	require.ErrorIs(t, p.Discard(t.Context(), at, "why"), projector.ErrNotParked)
	p = projector.New(store, m, projector.Config{}, add)
	require.ErrorIs(t, p.Discard(t.Context(), at, "why"), projector.ErrMisuse)
	require.ErrorIs(t, p.Resume(t.Context()), projector.ErrMisuse)
	_, err := p.Retry(t.Context())
	require.ErrorIs(t, err, projector.ErrMisuse)
	_, err = p.Parked(t.Context(), projector.ParkedQuery{})
	require.ErrorIs(t, err, projector.ErrMisuse)
}

// A word that is given at any step of a worker, during a try that fails or
// succeeds, is heeded: one that is discarded is not applied, and nothing that
// somebody asked for is forgotten.
func TestRuleAWordAtAnyStepIsNotLost(t *testing.T) {
	for _, word := range []string{"discard", "discard and heal", "retry"} {
		for _, lanes := range []int{1, 3} {
			steps := 0
			for n := 1; n == 1 || steps >= n-1; n++ {
				bubble(t, func(t *testing.T) {
					store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
					cfg := parks()
					cfg.Lanes = lanes
					p := projector.New(store, m, cfg, c.handle) // the operator's
					run := start(t, p)
					first := appendAll(t, store, record(t, Added{"a", 1}))
					at := appendAll(t, store, record(t, Added{"a", 2}))
					require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
					run.stop(t)
					_, err := p.Retry(t.Context()) // fails
					require.NoError(t, err)
					when := &moment{left: n, do: func(context.Context, string) error {
						if word != "discard" {
							c.heal(1)
						}
						if word == "retry" {
							_, err := p.Retry(context.Background())
							return err
						}
						return p.Discard(context.Background(), first, "why")
					}}
					if word == "discard and heal" {
						do := when.do
						when.do = func(ctx context.Context, step string) error {
							if err := do(ctx, step); !errors.Is(err, projector.ErrNotParked) {
								return err
							}
							return nil
						}
					}
					steps = 0
					var mu sync.Mutex
					working := projector.New[tx](store, stepped(m, func(ctx context.Context, step string) error {
						mu.Lock()
						steps++
						mu.Unlock()
						return when.hook(ctx, step)
					}), cfg, c.handle)
					run = start(t, working)
					time.Sleep(4 * time.Second)
					run.stop(t)
					if when.happened() == "" {
						return // there are no more
					}
					run = start(t, working)
					time.Sleep(time.Second)
					run.stop(t)
					want, how := ",2", "1 discarded, 2 applied"
					if word == "retry" {
						want, how = ",1,2", "1 applied, 2 applied"
					}
					require.Equal(t, how, settled(t, m), "at step %d, %s; waiting: %s", n, when.happened(), waiting(t, m))
					require.Equal(t, map[string]string{"a": want}, values(m), "at step %d, %s", n, when.happened())
				})
				if t.Failed() {
					return
				}
			}
		}
	}
}

// A discard of the event that fails now is heeded before the last try too.
func TestRuleADiscardDuringTriesIsNotLost(t *testing.T) {
	for _, then := range []projector.Action{projector.Halt, projector.Park} {
		bubble(t, func(t *testing.T) {
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
			cfg := parks()
			cfg.Failures.Then, cfg.Failures.Attempts = then, 5
			p := projector.New(store, m, cfg, c.handle)
			run := start(t, p)
			first := appendAll(t, store, record(t, Added{"a", 1}))
			at := appendAll(t, store, record(t, Added{"a", 2}))
			synctest.Wait() // between the first try and the second
			require.NoError(t, p.Discard(t.Context(), first, "why"))
			require.NoError(t, p.WaitFor(short(t), at))
			require.Equal(t, map[string]string{"a": ",2"}, values(m))
			require.Equal(t, "1 discarded", settled(t, m))
			run.stop(t)
		})
	}
}

// The same at any step where the projector halts.
func TestRuleADiscardAtAnyStepOfTheTriesIsNotLost(t *testing.T) {
	for _, then := range []projector.Action{projector.Halt, projector.Park} {
		for n := 1; !t.Failed(); n++ {
			step := ""
			bubble(t, func(t *testing.T) {
				store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
				cfg := parks()
				cfg.Failures.Then, cfg.Failures.Attempts = then, 2
				reader := projector.New(store, m, cfg, c.handle)
				first := appendAll(t, store, record(t, Added{"a", 1}))
				at := appendAll(t, store, record(t, Added{"a", 2}))
				var taken atomic.Bool
				when := &moment{left: n, do: func(context.Context, string) error {
					taken.Store(reader.Discard(context.Background(), first, "why") == nil)
					return nil
				}}
				run := start(t, projector.New[tx](store, stepped(m, when.hook), cfg, c.handle))
				time.Sleep(time.Minute)
				if taken.Load() {
					require.Contains(t, settled(t, m), "1 discarded", "%s, at step %d, %s", then, n, when.happened())
					require.NoError(t, reader.WaitFor(short(t), at))
				}
				run.stop(t)
				step = when.happened()
			})
			if step == "" {
				require.Greater(t, n, 10)
				break
			}
		}
	}
}

// While the projector is halted, parked events are dealt with.
func TestParkedEventsAreTriedWhileItIsHalted(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		bubble(t, func(t *testing.T) {
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errPermanent, 1)
			c.infect(errTest, 3)
			cfg := parks()
			cfg.Lanes = lanes
			cfg.Failures.Judge = func(err error) projector.Rule {
				if errors.Is(err, errTest) {
					return projector.Rule{Then: projector.Halt}
				}
				return projector.Rule{}
			}
			p := projector.New(store, m, cfg, c.handle)
			at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"a", 2}), record(t, Added{"b", 3}))
			run := start(t, p)
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
			synctest.Wait()
			c.heal(1)
			_, err := p.Retry(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, map[string]string{"a": ",1,2"}, values(m))
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
			run.stop(t)
		})
	}
}

// Keys that cannot be told of a halted event do not keep it from being discarded
// or skipped, and nothing spins.
func TestDiscardOfAnEventWhoseKeysPanic(t *testing.T) {
	for _, then := range []projector.Action{projector.Halt, projector.Skip} {
		bubble(t, func(t *testing.T) {
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 2)
			c.infect(errPermanent, 1)
			cfg := parks()
			cfg.Failures.Then = then
			cfg.Failures.Judge = func(err error) projector.Rule {
				if errors.Is(err, errPermanent) {
					return projector.Rule{Then: projector.Park}
				}
				return projector.Rule{}
			}
			cfg.Keys = projector.KeyFunc(func(r event.Record) []string {
				keys := keysOf(r)
				if keys[0] == "panic" {
					panic("no key")
				}
				return keys
			})
			var spins atomic.Int32
			p := projector.New[tx](store, stepped(m, func(ctx context.Context, step string) error {
				if spins.Add(1) > 1000 {
					time.Sleep(time.Hour)
				}
				return nil
			}), cfg, c.handle)
			appendAll(t, store, record(t, Added{"a", 1}))
			bad := appendAll(t, store, record(t, Added{"panic", 2}))
			at := appendAll(t, store, record(t, Added{"b", 3}))
			run := start(t, p)
			reader := projector.New(store, m, cfg, c.handle)
			if then == projector.Halt {
				require.ErrorIs(t, reader.WaitFor(short(t), at), projector.ErrHalted)
				require.NoError(t, reader.Discard(t.Context(), bad, "why"))
				time.Sleep(time.Second)
			}
			require.NoError(t, reader.WaitFor(short(t), at, "b"))
			require.EqualValues(t, 1, stateOf(t, m).Skipped)
			require.Less(t, spins.Load(), int32(500))
			run.stop(t)
		})
	}
}
