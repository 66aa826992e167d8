package reaction_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/reaction"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestID(t *testing.T) {
	one, two := uuid.MustParse("0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f"), uuid.New()
	// A stored format: never another one.
	require.Equal(t, "30bb9a53-8570-5344-9878-0689692e3281", reaction.ID(one, "ship").String())
	seen := map[uuid.UUID]bool{}
	for _, e := range []uuid.UUID{one, two} {
		for _, name := range []string{"ship", "shi", "ship ", "Ship", "\x00ship", "ship\x00"} {
			id := reaction.ID(e, name)
			require.Equal(t, id, reaction.ID(e, name))
			require.Equal(t, uuid.Version(5), id.Version())
			require.False(t, seen[id])
			seen[id] = true
		}
	}
}

// One event, a thousand deliveries at once on three replicas: one command.
func TestOnceHoweverOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		happens(s, stock(1000))
		d := happened(s, paid{"o1"})
		deliver(t, s, d, 1000, command.Config{})
		require.Len(t, found(t, s, shipped{}), 1, "the event's command is another one each time")
	})
}

// The same while everything is lost, doubled, late and slow. Deliveries are
// repeated until there is a last word, as a projector does.
func TestOnceUnderFaults(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			inner := memstore.New()
			defer inner.Close()
			happens(inner, stock(1000))
			d := happened(inner, paid{"o1"})
			s := storefault.New(inner, storefault.Rough(seed, 0.12))
			deliver(t, s, d, 50, hasty)
			s.Settle()
			require.Len(t, found(t, inner, shipped{}), 1, "seed %d", seed)
		})
	}
}

func deliver(t *testing.T, s eventstore.Store, d projector.Delivery, times int, cfg command.Config) {
	replicas := []*command.Runner{command.NewRunner(s, cfg), command.NewRunner(s, cfg), command.NewRunner(s, cfg)}
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() {
			for range 1000 {
				err := reaction.Run(t.Context(), replicas[i%3], d, "ship", ship{Order: "o1"})
				if err == nil {
					return
				}
				if !errors.Is(err, projector.ErrHold) {
					t.Errorf("no last word, and no hold: %v", err)
					return
				}
				time.Sleep(time.Millisecond)
			}
			t.Error("never a last word")
		})
	}
	all.Wait()
}

// The answer of the first delivery is lost on its way: the second one finds it.
func TestLostAnswer(t *testing.T) {
	for _, fault := range []storefault.Fault{storefault.LoseAnswer, storefault.LandLate, storefault.Double, storefault.LandBefore(2)} {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memstore.New()
				defer inner.Close()
				happens(inner, stock(9))
				d := happened(inner, paid{"o1"})
				s := storefault.New(inner, storefault.Config{})
				s.Script(fault, storefault.LoseRequest)
				r := command.NewRunner(s, hasty)
				for range 3 {
					if err := reaction.Run(t.Context(), r, d, "ship", ship{Order: "o1"}); err != nil {
						require.ErrorIs(t, err, projector.ErrHold)
						require.ErrorIs(t, err, command.ErrUnknown)
						s.Settle()
					}
				}
				require.Len(t, found(t, inner, shipped{}), 1)
			})
		})
	}
}

// What the first delivery refused is refused for ever, also by a runner that
// records nothing by itself.
func TestRefusalIsTheLastWord(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	d := happened(s, paid{"o1"})
	require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"}))
	happens(s, stock(9)) // by now it would be shipped
	for range 3 {
		out, err := reaction.Ask(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"})
		require.Equal(t, command.Refused, out.Status)
		require.True(t, out.Replayed)
		require.ErrorIs(t, err, soldOut{"main"})
		require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"}))
	}
	require.Empty(t, found(t, s, shipped{}))
	require.Len(t, found(t, s, event.Marker{}), 1)
}

func TestNothingToDoIsTheLastWord(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	d := happened(s, paid{"o1"})
	for range 3 {
		require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1", Silent: true}))
		happens(s, stock(9))
	}
	require.Empty(t, found(t, s, shipped{}))
	require.Len(t, found(t, s, event.Marker{}), 1)
}

// A refusal that cannot be recorded is no answer: nothing passes it.
func TestRefusalThatCannotBeRecorded(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	d := happened(s, paid{"o1"})
	err := reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1", Plain: true})
	require.ErrorIs(t, err, command.ErrMisuse)
	require.ErrorContains(t, err, "must be an event type")
	require.NotErrorIs(t, err, projector.ErrHold)
	require.Empty(t, found(t, s, event.Marker{}))
}

func TestMetadata(t *testing.T) {
	s, other := memstore.New(), memstore.New()
	defer s.Close()
	defer other.Close()
	happens(other, stock(9))
	ctx := command.WithMetadata(t.Context(), map[string]string{"actor": "the shipping service"})
	first := happened(s, paid{"o1"})
	second := foreign(paid{"o2"})
	for i, d := range []projector.Delivery{first, second} {
		// Another boundary: another store, another runner.
		require.NoError(t, reaction.Run(ctx, command.NewRunner(other, command.Config{}), d, "ship", ship{Order: "o1"}))
		r := found(t, other, shipped{})[i]
		require.Equal(t, reaction.ID(d.ID, "ship"), r.ID)
		require.Equal(t, d.ID.String(), r.Metadata.Causation)
		require.Equal(t, d.ID.String(), r.Metadata.Correlation, "which began it all")
		require.Equal(t, 1, r.Metadata.Depth)
		require.Equal(t, map[string]string{"actor": "the shipping service"}, r.Metadata.Custom)

		// And back.
		back := projector.Delivery{Record: r, Event: shipped{}}
		require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), back, "tell", say{[]event.Event{stock(i)}}))
		told := found(t, s, stocked{})[i]
		require.Equal(t, r.ID.String(), told.Metadata.Causation)
		require.Equal(t, d.ID.String(), told.Metadata.Correlation)
		require.Equal(t, 2, told.Metadata.Depth)
	}
	require.Len(t, found(t, s, shipped{}), 0)
}

// What is no last word holds the event, and says why.
func TestHold(t *testing.T) {
	for name, c := range map[string]struct {
		fault storefault.Fault
		want  error
	}{
		"unavailable": {storefault.Refuse, command.ErrUnavailable},
		"unknown":     {storefault.LandLate, command.ErrUnknown},
		"hanging":     {storefault.Hang, nil}, // it is there
		"contended":   {storefault.Pass, command.ErrContended},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := memstore.New()
				defer inner.Close()
				happens(inner, stock(9))
				d := happened(inner, paid{"o1"})
				s := storefault.New(inner, storefault.Config{})
				if name == "contended" {
					s.Before(func(c storefault.Call) {
						if c.Op == storefault.OpAppend {
							happens(inner, stock(1))
						}
					})
				}
				s.Script(c.fault, c.fault)
				err := reaction.Run(t.Context(), command.NewRunner(s, hasty), d, "ship", ship{Order: "o1"})
				if c.want != nil {
					require.ErrorIs(t, err, projector.ErrHold)
					require.ErrorIs(t, err, c.want)
					require.ErrorContains(t, err, d.ID.String())
					require.ErrorContains(t, err, `reaction "ship" to event`)
				} else {
					require.NoError(t, err)
				}
				s.Before(nil)
				s.Settle()
				require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, hasty), d, "ship", ship{Order: "o1"}))
				require.Len(t, found(t, inner, shipped{}), 1)
			})
		})
	}
}

func TestContextThatEnds(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	happens(s, stock(9))
	d := happened(s, paid{"o1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := reaction.Run(ctx, command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, projector.ErrHold)
	require.Empty(t, found(t, s, shipped{}))
}

// An error that trying again does not mend is the policy's to judge.
func TestFailed(t *testing.T) {
	s := memstore.New()
	d := happened(s, paid{"o1"})
	require.NoError(t, s.Close())
	err := reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"})
	require.ErrorIs(t, err, eventstore.ErrClosed)
	require.NotErrorIs(t, err, projector.ErrHold)

	for _, c := range []struct {
		d    projector.Delivery
		name string
		says string
	}{{d, "", "no name"}, {projector.Delivery{}, "ship", "no event_id"}} {
		err := reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), c.d, c.name, ship{})
		require.ErrorIs(t, err, command.ErrMisuse)
		require.ErrorContains(t, err, c.says)
	}
	require.ErrorIs(t, reaction.Run(t.Context(), nil, d, "ship", ship{}), command.ErrMisuse)
}

// Two commands of one event need two names. Under one, the second is not lost
// in silence; nor is a payload that was another one at the first delivery.
func TestAnotherPayload(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	happens(s, stock(9))
	d, r := happened(s, paid{"o1"}), command.NewRunner(s, command.Config{})
	require.NoError(t, reaction.Run(t.Context(), r, d, "ship", ship{Order: "o1"}))
	err := reaction.Run(t.Context(), r, d, "ship", ship{Order: "o2"})
	require.ErrorIs(t, err, command.ErrIDReused)
	require.NotErrorIs(t, err, projector.ErrHold, "the policy may pass it: the event had its command")
	require.ErrorContains(t, err, "give each its own")
	require.Len(t, found(t, s, shipped{}), 1)
	require.NoError(t, reaction.Run(t.Context(), r, d, "ship the other one", ship{Order: "o2"}))
	require.Len(t, found(t, s, shipped{}), 2)
}

func TestReplayDoesNothing(t *testing.T) {
	s := storefault.New(memstore.New(), storefault.Config{})
	defer s.Close()
	d := foreign(paid{"o1"})
	d.Replay = true
	require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"}))
	out, err := reaction.Ask(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1"})
	require.NoError(t, err)
	require.Zero(t, out.Status)
	require.Zero(t, s.Counts().Calls())
}

// Each stocking pays an order, and each payment stocks: found at the limit.
func TestLoop(t *testing.T) {
	for _, c := range []struct{ set, limit int }{{0, 32}, {3, 3}, {-1, 32}, {50, 50}} {
		s := memstore.New()
		happens(s, stock(1))
		ctx := reaction.WithMaxDepth(t.Context(), c.set)
		err := follow(ctx, s, command.NewRunner(s, command.Config{}))
		require.ErrorIs(t, err, reaction.ErrLoop)
		require.NotErrorIs(t, err, projector.ErrHold)
		var loop *reaction.LoopError
		require.ErrorAs(t, err, &loop)
		all := append(found(t, s, stocked{}), found(t, s, paid{})...)
		require.Len(t, all, 1+c.limit)
		deepest := all[0]
		for _, r := range all {
			if r.Metadata.Depth > deepest.Metadata.Depth {
				deepest = r
			}
		}
		require.Equal(t, reaction.LoopError{
			Reaction: map[string]string{"ShopStocked": "pay", "OrderPaid": "stock"}[deepest.Type],
			EventID:  deepest.ID, Type: deepest.Type, Position: deepest.Position, Depth: c.limit, MaxDepth: c.limit,
		}, *loop)
		require.ErrorContains(t, err, deepest.ID.String())
		require.NoError(t, s.Close())
	}
}

// follow reacts to each event of the log until something fails.
func follow(ctx context.Context, s eventstore.Store, r *command.Runner) error {
	n := 0
	for rec, err := range eventstore.All(ctx, s, consistency.All(), consistency.Position{}) {
		if n++; n > 100 {
			return errors.New("the loop was not found")
		}
		if err == nil {
			d := projector.Delivery{Record: rec, Attempt: 1}
			if rec.Type == "ShopStocked" {
				err = reaction.Run(ctx, r, d, "pay", say{[]event.Event{paid{"o"}}})
			} else {
				err = reaction.Run(ctx, r, d, "stock", say{[]event.Event{stock(1)}})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
