package storefault_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/cccgo/ccc/eventstore/storetest"
	"github.com/stretchr/testify/require"
)

func TestConformanceWithoutFaults(t *testing.T) {
	storetest.Run(t, storetest.Features{Rounds: 20}, func(string) (eventstore.Store, error) {
		return storefault.New(memstore.New(), storefault.Config{}), nil
	})
}

// Pages that lag and calls that take their time keep every promise.
func TestConformanceWithLagAndDelays(t *testing.T) {
	seed := rand.Uint64()
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, storetest.Check(storetest.Features{Rounds: 10}, func(string) (eventstore.Store, error) {
			return storefault.New(memstore.New(), storefault.Config{Seed: seed, LagPages: 0.4, Delay: 0.3, DelayBy: time.Millisecond}), nil
		}), "seed %d", seed)
	})
}

// A reader with an interval of its own needs no hints; one without is shown.
func TestLostHintsAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, storefault.Config{LoseHints: 1})
		require.NoError(t, b.save(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.Wait(ctx, consistency.Position{}), context.DeadlineExceeded)

		ended := make(chan error)
		go func() { ended <- b.Wait(context.Background(), consistency.Position{}) }()
		synctest.Wait()
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-ended, eventstore.ErrClosed)
	})
}

// play runs the same calls each time and returns all that was heard.
func play(t *testing.T, seed uint64) (heard []string, counts storefault.Counts) {
	cfg := storefault.Rough(seed, 0.1)
	cfg.Delay = 0
	b := newBed(t, cfg)
	for i := range 200 {
		id := fmt.Sprint(i % 60)
		err := b.save(t.Context(), id)
		results, readErr := b.Snapshot(t.Context(), eventstore.Part{Query: consistency.All(), LatestOnly: true})
		heard = append(heard, fmt.Sprint(eventstore.KindOf(err), results != nil, readErr, b.stored(id)))
	}
	b.Settle()
	return heard, b.Counts()
}

func TestASeedRepeatsARun(t *testing.T) {
	for seed := range uint64(20) {
		heard, counts := play(t, seed)
		again, countsAgain := play(t, seed)
		require.Equal(t, heard, again)
		require.Equal(t, counts, countsAgain)
		other, _ := play(t, seed+1000)
		require.NotEqual(t, heard, other)
	}
}

// Every fault happens about as often as it was asked for.
func TestChances(t *testing.T) {
	const calls, chance = 2000, 0.1
	for seed := range uint64(3) {
		cfg := storefault.Rough(seed, chance)
		cfg.Delay, cfg.LoseHints, cfg.StaleReads = 0, chance, chance
		b := newBed(t, cfg)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range calls {
			_ = b.save(t.Context(), fmt.Sprint(i))
			_, _ = b.Snapshot(t.Context(), eventstore.Part{Query: consistency.All(), LatestOnly: true})
			_, _ = b.Page(t.Context(), consistency.All(), consistency.Position{}, 10)
			_ = b.Wait(ended, consistency.Position{})
		}
		faults := b.Counts().Faults
		for _, name := range []string{"lose answer", "lose request", "land late", "double", "echo", "refuse", "spurious", "lag", "stale", "lose hint"} {
			require.InDelta(t, calls*chance, faults[name], 60, name)
			delete(faults, name)
		}
		require.InDelta(t, 2*calls*chance, faults["fail"], 80, "reads")
		require.Len(t, faults, 1, "%v", faults)
	}
}

// Whatever goes wrong, answers are true: what was saved is stored once, and
// what was not applied is not, also when all has landed.
func TestAnswersAreTrueUnderEveryFault(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			cfg := storefault.Rough(seed, 0.12)
			cfg.Hang = 0.05
			if seed%2 == 0 {
				cfg.LateBy = time.Second
			}
			b := newBed(t, cfg)
			const workers = 4
			kinds := make([][]eventstore.Kind, workers)
			done := make(chan struct{})
			for w := range workers {
				go func() {
					defer func() { done <- struct{}{} }()
					for i := range 50 {
						ctx, cancel := context.WithTimeout(t.Context(), 8*time.Millisecond)
						kinds[w] = append(kinds[w], eventstore.KindOf(b.save(ctx, fmt.Sprint(w, "-", i))))
						cancel()
					}
				}()
			}
			for range workers {
				<-done
			}
			b.Settle()
			time.Sleep(time.Minute) // nothing may land any more
			for w := range kinds {
				for i, kind := range kinds[w] {
					n := b.stored(fmt.Sprint(w, "-", i))
					switch kind {
					case "", eventstore.Conflict: // a conflict of ids that are used once is its own double
						require.Equal(t, 1, n, "seed %d", seed)
					case eventstore.NotApplied:
						require.Zero(t, n, "seed %d", seed)
					default:
						require.LessOrEqual(t, n, 1, "seed %d", seed)
					}
				}
			}
			require.Zero(t, b.InFlight())
		})
	}
}

// A caller whose time is up while the request is on its way hears Ambiguous;
// some of those requests arrive and some do not.
func TestContextsThatEndOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, storefault.Config{Delay: 1, DelayBy: time.Hour})
		ambiguous, arrived := 0, 0
		for i := range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := b.save(ctx, fmt.Sprint(i))
			cancel()
			if err != nil {
				b.kind(eventstore.Ambiguous, err)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				ambiguous++
			}
			_, err = b.Snapshot(ctx, eventstore.Part{Query: consistency.All()})
			require.Error(t, err)
		}
		b.Settle()
		for i := range 60 {
			arrived += b.stored(fmt.Sprint(i))
		}
		require.Greater(t, ambiguous, 50)
		require.InDelta(t, 45, arrived, 12, "half are late on the way there, and half of those are lost")
	})
}

func TestLogfIsToldFaults(t *testing.T) {
	var lines []string
	b := newBed(t, storefault.Config{Logf: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }})
	b.Script(storefault.Pass, storefault.LandLate)
	require.NoError(t, b.save(t.Context(), "a"))
	b.kind(eventstore.Ambiguous, b.save(t.Context(), "b"))
	b.Settle()
	require.Equal(t, []string{"storefault: append 2: land late", "storefault: append 2 lands late: <nil>"}, lines)
}
