package memtarget_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

var (
	_ projector.LaneTarget[tx]  = (*memtarget.Target[string])(nil)
	_ projector.Generations[tx] = (*memtarget.Target[string])(nil)
	_ projector.LaneTarget[tx]  = (*memtarget.Generation[string])(nil)
	_ projector.Generation[tx]  = (*memtarget.Generation[string])(nil)
)

func next(t *testing.T, m *memtarget.Target[string], tag string) *memtarget.Generation[string] {
	g, err := m.Next(t.Context(), tag)
	require.NoError(t, err)
	return g.(*memtarget.Generation[string])
}

func ready(context.Context) error { return nil }

// Batches and lanes that began before a switch wait at their end until it is
// decided: they are over if it is made, and committed if it is not.
func TestSwitchHoldsWhatHasBegun(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made: ", made), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memtarget.New[string]()
				claim := claimed(t, m)
				g := next(t, m, "one")
				ended := make(chan error)
				go func() {
					ended <- m.Apply(t.Context(), claim, at(0), func(b batch) (projector.Checkpoint, error) {
						b.Tx().Put("a", "1")
						time.Sleep(time.Second)
						return at(1), nil
					})
				}()
				go func() {
					ended <- m.Lane(t.Context(), claim, func(b batch) error {
						b.Tx().Put("b", "1")
						time.Sleep(time.Second)
						return nil
					})
				}()
				go func() {
					time.Sleep(time.Second)
					ended <- m.Fail(t.Context(), claim, projector.Failure{Position: at(9).Position})
				}()
				go func() { // a word is kept by whichever is live then
					time.Sleep(time.Second)
					if err := m.Ask(t.Context(), name, at(0).Position, ""); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				no := fmt.Errorf("no")
				err := g.Switch(t.Context(), func(context.Context) error {
					time.Sleep(time.Minute)
					require.Zero(t, m.Len())
					if made {
						return nil
					}
					return no
				})
				synctest.Wait()
				s, stateErr := m.State(t.Context(), name)
				require.NoError(t, stateErr)
				if made {
					require.NoError(t, err)
					for range 3 {
						require.ErrorIs(t, <-ended, projector.ErrTakenOver)
					}
					require.Zero(t, m.Len())
				} else {
					require.Equal(t, no, err)
					for range 3 {
						require.NoError(t, <-ended)
					}
					require.Equal(t, 2, m.Len())
				}
				require.EqualValues(t, 1, s.Asked)
			})
		})
	}
}

// Who waits for a switch gives up with its context, and nothing is committed.
func TestHeldCommitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		claim := claimed(t, m)
		g := next(t, m, "one")
		err := g.Switch(t.Context(), func(context.Context) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, m.Lane(ctx, claim, func(b batch) error { b.Tx().Put("a", "1"); return nil }), context.DeadlineExceeded)
			require.ErrorIs(t, m.Ask(ctx, name, at(0).Position, ""), context.DeadlineExceeded)
			require.ErrorIs(t, next(t, m, "one").Switch(ctx, ready), context.DeadlineExceeded, "one switch at a time")
			return context.Canceled
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, m.Len())
	})
}

// A generation that is gone says so with an error that ends a projector.
func TestGenerationThatIsGone(t *testing.T) {
	m := memtarget.New[string]()
	g := next(t, m, "one")
	claim := claimed(t, g)
	again := next(t, m, "two")
	_, err := g.State(t.Context(), name)
	require.ErrorIs(t, err, projector.ErrClosed)
	require.ErrorContains(t, err, `generation "one" was dropped`)
	require.ErrorIs(t, g.Apply(t.Context(), claim, at(0), nil), projector.ErrClosed)
	require.ErrorIs(t, g.Switch(t.Context(), ready), projector.ErrClosed)
	require.NoError(t, again.Switch(t.Context(), ready))
	require.ErrorIs(t, again.Switch(t.Context(), ready), projector.ErrClosed, "it is live")
	_, err = again.Compare(t.Context())
	require.ErrorIs(t, err, projector.ErrClosed)
}

// A generation that is dropped while it gets ready is not switched to.
func TestDroppedWhileItGetsReady(t *testing.T) {
	m := memtarget.New[string]()
	g := next(t, m, "one")
	err := g.Switch(t.Context(), func(context.Context) error { next(t, m, "two"); return nil })
	require.ErrorIs(t, err, projector.ErrClosed)
}

// What runs on a generation that is dropped is over, and who waits there wakes.
func TestDropEndsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		g := next(t, m, "one")
		claim := claimed(t, g)
		s, err := g.State(t.Context(), name)
		require.NoError(t, err)
		woken, began := make(chan error), time.Now()
		go func() { woken <- g.Wait(t.Context(), name, s) }()
		synctest.Wait()
		require.ErrorIs(t, g.Lane(t.Context(), claim, func(batch) error { next(t, m, "two"); return nil }), projector.ErrTakenOver)
		require.NoError(t, <-woken)
		require.Zero(t, time.Since(began))
	})
}

// Another switch that waits does not lose those who wait already.
func TestSwitchesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		claim := claimed(t, m)
		g, other := next(t, m, "one"), next(t, m, "one")
		committed, switched := make(chan error, 1), make(chan error, 1)
		no := fmt.Errorf("no")
		require.Equal(t, no, g.Switch(t.Context(), func(context.Context) error {
			go func() { committed <- m.Lane(t.Context(), claim, func(batch) error { return nil }) }()
			synctest.Wait()
			go func() { switched <- other.Switch(t.Context(), ready) }()
			synctest.Wait()
			return no
		}))
		<-committed // or it came after the second switch
		require.NoError(t, <-switched)
	})
}

// A name that was never used is one that was never used after a switch too.
func TestSwitchKeepsUnusedNames(t *testing.T) {
	m := memtarget.New[string]()
	g := next(t, m, "one")
	for _, m := range []projector.Target[tx]{m, g} {
		_, err := m.State(t.Context(), name)
		require.NoError(t, err)
	}
	require.NoError(t, g.Switch(t.Context(), ready))
	s, err := m.State(t.Context(), name)
	require.NoError(t, err)
	require.Zero(t, s)
}

// Ready that panics changes nothing and holds nobody up.
func TestSwitchPanics(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	g := next(t, m, "one")
	require.Panics(t, func() { _ = g.Switch(t.Context(), func(context.Context) error { panic("no") }) })
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { b.Tx().Put("a", "1"); return nil }))
	require.Equal(t, map[string]string{"a": "1"}, maps.Collect(m.All()))
}

// Close gives back what was claimed through the value, and wakes who waits.
func TestGenerationCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		g, other := next(t, m, "one"), next(t, m, "one")
		claimed(t, g)
		s, err := g.State(t.Context(), name)
		require.NoError(t, err)
		began, woken := time.Now(), make(chan error)
		go func() { woken <- other.Wait(t.Context(), name, s) }()
		synctest.Wait()
		require.NoError(t, g.Close())
		require.NoError(t, g.Close())
		require.NoError(t, <-woken)
		require.Zero(t, time.Since(began))
		claimed(t, other)

		g = next(t, m, "one") // what others claimed stays theirs
		s, err = g.State(t.Context(), name)
		require.NoError(t, err)
		go func() { woken <- g.Wait(t.Context(), name, s) }()
		synctest.Wait()
		require.NoError(t, g.Close())
		require.NoError(t, <-woken)
		require.Zero(t, time.Since(began))
		s, err = other.State(t.Context(), name)
		require.NoError(t, err)
		require.True(t, s.Held)
	})
}

func TestCompare(t *testing.T) {
	m := memtarget.New[[]string]()
	put := func(m projector.Target[*memtarget.Tx[[]string]], key string, value []string) {
		claim, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, m.(projector.LaneTarget[*memtarget.Tx[[]string]]).Lane(t.Context(), claim, func(b projector.Batch[*memtarget.Tx[[]string]]) error {
			b.Tx().Put(key, value)
			return nil
		}))
		require.NoError(t, m.Release(t.Context(), claim))
	}
	g, err := m.Next(t.Context(), "one")
	require.NoError(t, err)
	put(m, "same", []string{"x"})
	put(g, "same", []string{"x"})
	differences, err := g.Compare(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
	put(m, "changed", []string{"x"})
	put(g, "changed", []string{"y"})
	put(m, "missing", []string{"x"})
	put(g, "extra", []string{"y"})
	differences, err = g.Compare(t.Context())
	require.NoError(t, err)
	require.Equal(t, []projector.Difference{{
		Table: "values", Live: 2, Next: 2,
		Examples: []string{
			`"changed" is [x] in the live generation and [y] in the new one`,
			`"missing" is [x] in the live generation and missing in the new one`,
			`"extra" is missing in the live generation and [y] in the new one`,
		},
	}}, differences)
	for i := range 20 {
		put(g, fmt.Sprint(i), nil)
	}
	differences, err = g.Compare(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 22, differences[0].Next)
	require.Len(t, differences[0].Examples, 10)
}

func TestNamesAreSorted(t *testing.T) {
	m := memtarget.New[string]()
	var want []projector.Name
	for _, p := range []string{"a", "b", "c"} {
		for _, b := range []string{"x", "y"} {
			want = append(want, projector.Name{Projector: p, Boundary: b})
		}
	}
	for _, i := range []int{3, 1, 5, 0, 4, 2} {
		_, err := m.Claim(t.Context(), want[i])
		require.NoError(t, err)
	}
	names, err := m.Names(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, names)
}
