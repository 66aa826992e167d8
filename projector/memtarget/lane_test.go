package memtarget_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

type batch = projector.Batch[tx]

func claimed(t *testing.T, m projector.Target[tx]) projector.Claim {
	claim, err := m.Claim(t.Context(), name)
	require.NoError(t, err)
	return claim
}

// Handlers that take their time in lanes take it together.
func TestLanesSleepTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		claim := claimed(t, m)
		began := time.Now()
		var lanes sync.WaitGroup
		for i := range 8 {
			lanes.Go(func() {
				err := m.Lane(t.Context(), claim, func(b batch) error {
					time.Sleep(time.Minute)
					b.Tx().Put(fmt.Sprint(i), "1")
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		lanes.Wait()
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, 8, m.Len())
	})
}

// Whatever a transaction has read, its commit fails if another one changed it
// meanwhile, and only then.
func TestCollision(t *testing.T) {
	id, other := uuid.New(), uuid.New()
	get := func(key string) func(batch) error {
		return func(b batch) error { b.Tx().Get(key); return nil }
	}
	put := func(key string) func(batch) error {
		return func(b batch) error { b.Tx().Put(key, "2"); return nil }
	}
	all := func(b batch) error {
		for range b.Tx().All() {
			break
		}
		return nil
	}
	seen := func(b batch) error { _, err := b.Seen(id); return err }
	done := func(b batch) error { return b.Done(id, at(1).Position) }
	isParked := func(key string) func(batch) error {
		return func(b batch) error { _, err := b.IsParked([]string{key}); return err }
	}
	park := func(n uint64, keys ...string) func(batch) error {
		return func(b batch) error { return b.Park(parked(n, keys...)) }
	}
	parkedAt := func(b batch) error { _, _, err := b.ParkedAt(at(5).Position); return err }
	settle := func(b batch) error { return b.Settle(at(5).Position, projector.Applied, "") }
	for _, c := range []struct {
		name   string
		reads  func(batch) error
		writes func(batch) error
		names  string // what the error names; empty: both are committed
	}{
		{"a value", get("a"), put("a"), `value "a"`},
		{"a value that is missing", get("missing"), put("missing"), `value "missing"`},
		{"a value that is deleted", get("a"), func(b batch) error { b.Tx().Delete("a"); return nil }, `value "a"`},
		{"another value", get("a"), put("b"), ""},
		{"all values", all, put("missing"), `value "missing"`},
		{"a value that only was written", put("a"), put("a"), ""},
		{"a mark", seen, done, "the mark of event " + id.String()},
		{"a mark of both", done, done, "the mark of event " + id.String()},
		{"another mark", seen, func(b batch) error { return b.Done(other, at(1).Position) }, ""},
		{"a key", isParked("l"), park(6, "k", "l"), `what is parked for key "l"`},
		{"a key of what is settled", isParked("k"), settle, `what is parked for key "k"`},
		{"another key", isParked("l"), park(6, "m"), ""},
		{"a parked event", parkedAt, park(5, "m"), "the event parked at " + at(5).Position.String()},
		{"a parked event of both", park(5, "m"), park(5, "n"), "the event parked at " + at(5).Position.String()},
		{"a settled event of both", settle, settle, "the event parked at " + at(5).Position.String()},
		{"another parked event", parkedAt, park(6, "m"), ""},
	} {
		for _, work := range []string{"is done", "fails"} {
			t.Run(c.name+" and work "+work, func(t *testing.T) {
				m := memtarget.New[string]()
				claim := claimed(t, m)
				require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { b.Tx().Put("a", "1"); return park(5, "k")(b) }))
				no := errors.New("no")
				err := m.Lane(t.Context(), claim, func(b batch) error {
					require.NoError(t, c.reads(b))
					require.NoError(t, m.Lane(t.Context(), claim, c.writes))
					b.Tx().Put("mine", "1")
					if work == "fails" {
						return no
					}
					return nil
				})
				_, mine := m.Get("mine")
				switch {
				case c.names != "":
					require.ErrorIs(t, err, projector.ErrCollided)
					require.ErrorContains(t, err, c.names)
					require.False(t, mine)
				case work == "fails":
					require.Equal(t, no, err)
				default:
					require.NoError(t, err)
					require.True(t, mine)
				}
			})
		}
	}
}

// Apply of another name collides with lanes too, but not by what is kept for
// its name.
func TestCollisionWithAnotherName(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	other, err := m.Claim(t.Context(), projector.Name{Projector: "other", Boundary: "default"})
	require.NoError(t, err)
	id := uuid.New()
	apply := func(read func(batch)) error {
		return m.Apply(t.Context(), other, at(0), func(b batch) (projector.Checkpoint, error) {
			read(b)
			return at(0), m.Lane(t.Context(), claim, func(b batch) error {
				b.Tx().Put("a", "1")
				return errors.Join(b.Done(id, at(1).Position), b.Park(parked(1, "k")))
			})
		})
	}
	require.NoError(t, apply(func(b batch) {
		_, err := b.Seen(id)
		require.NoError(t, err)
		_, err = b.IsParked([]string{"k"})
		require.NoError(t, err)
	}))
	require.ErrorIs(t, apply(func(b batch) { b.Tx().Get("a") }), projector.ErrCollided)
}

// A word that comes while a transaction has the parked event in its hands is
// not lost.
func TestAskIsNotOverwritten(t *testing.T) {
	t.Run("ParkedAt", func(t *testing.T) {
		askIsNotOverwritten(t, func(b batch) (projector.Parked, bool, error) { return b.ParkedAt(at(5).Position) })
	})
	t.Run("FirstParked", func(t *testing.T) {
		askIsNotOverwritten(t, func(b batch) (projector.Parked, bool, error) { return b.FirstParked("k") })
	})
}

func askIsNotOverwritten(t *testing.T, get func(batch) (projector.Parked, bool, error)) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { return b.Park(parked(5, "k")) }))
	again := func(ask bool) error {
		return m.Apply(t.Context(), claim, at(0), func(b batch) (projector.Checkpoint, error) {
			p, _, err := get(b)
			require.NoError(t, err)
			if ask {
				require.NoError(t, m.Ask(t.Context(), name, at(5).Position, "why"))
			}
			p.Attempts++
			p.Record.Position = at(5 + uint64(p.Attempts)).Position // read here, and not written
			return at(0), b.Park(p)
		})
	}
	require.ErrorIs(t, again(true), projector.ErrCollided)
	require.NoError(t, again(false))
	list, err := m.Parked(t.Context(), name, projector.ParkedQuery{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "why", list[0].Discard)
	require.Equal(t, "why", list[1].Discard)
}

// A frozen owner's lanes are nothing once its name is taken over.
func TestTakeoverEndsLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memtarget.New[string]()
		m.Lease = time.Second
		old := claimed(t, m)
		ended := make(chan error)
		go func() {
			ended <- m.Lane(t.Context(), old, func(b batch) error {
				b.Tx().Put("a", "1")
				time.Sleep(time.Minute)
				return nil
			})
		}()
		synctest.Wait()
		m.Freeze(old)
		time.Sleep(time.Second)
		claim := claimed(t, m)
		require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { b.Tx().Put("b", "1"); return nil }))
		require.ErrorIs(t, <-ended, projector.ErrTakenOver)
		require.Equal(t, map[string]string{"b": "1"}, maps.Collect(m.All()))
	})
}

// A lane whose context has ended commits nothing.
func TestLaneDoesNotCommitAfterTheEndOfItsContext(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	err := m.Lane(ctx, claim, func(b batch) error {
		b.Tx().Put("a", "1")
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, m.Len())
}
