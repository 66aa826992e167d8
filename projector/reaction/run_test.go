package reaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
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
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/cccgo/ccc/projector/reaction"
	"github.com/stretchr/testify/require"
)

type tx = *memtarget.Tx[int]

// shipping ships what is paid, and counts the deliveries that were not rolled
// back by their order.
func shipping(r *command.Runner) projector.Handler[tx] {
	return func(ctx context.Context, tx tx, d projector.Delivery) error {
		e, ok := d.Event.(paid)
		if !ok {
			return nil
		}
		times, _ := tx.Get(e.Order)
		tx.Put(e.Order, times+1)
		return reaction.Run(ctx, r, d, "ship", ship{Order: e.Order})
	}
}

// start runs a projector until stop.
func start[Tx any](p *projector.Projector[Tx]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			panic(err)
		}
	}
}

// A policy that skips does not skip what may yet happen.
func TestHeldEventIsNotSkipped(t *testing.T) {
	for _, fault := range []storefault.Fault{storefault.LoseRequest, storefault.LandLate, storefault.Refuse} {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, other := memstore.New(), memstore.New()
				defer s.Close()
				defer other.Close()
				happens(other, stock(9))
				d := happened(s, paid{"o1"})
				faulty := storefault.New(other, storefault.Config{})
				for range 40 {
					faulty.Script(fault)
				}
				model := memtarget.New[int]()
				p := projector.New(s, model, projector.Config{
					Name: "shipping", Events: events,
					Failures: projector.Policy{Attempts: 2, Then: projector.Skip, HaltRetry: time.Second},
				}, shipping(command.NewRunner(faulty, hasty)))
				stop := start(p)

				halts := 0
				err := p.WaitFor(t.Context(), d.Position)
				for ; err != nil; err = p.WaitFor(t.Context(), d.Position) {
					require.ErrorIs(t, err, projector.ErrHalted)
					state, stateErr := model.State(t.Context(), projector.Name{Projector: "shipping", Boundary: "default"})
					require.NoError(t, stateErr)
					require.True(t, d.Position.After(state.Checkpoint.Position), "the checkpoint passed it")
					require.Zero(t, state.Skipped)
					if halts++; halts == 5 {
						faulty.Settle()
					}
					time.Sleep(time.Second)
				}
				stop()
				require.NotZero(t, halts)
				times, _ := model.Get("o1")
				require.Equal(t, 1, times)
				require.Len(t, found(t, other, shipped{}), 1)
			})
		})
	}
}

// A reaction whose payload was changed after it had its command halts, unless the
// policy says to pass it: then it is counted.
func TestPolicyPassesAnotherPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		happens(s, stock(9))
		d := happened(s, paid{"o1"})
		require.NoError(t, reaction.Run(t.Context(), command.NewRunner(s, command.Config{}), d, "ship", ship{Order: "o1", Silent: true}))
		pass := func(err error) projector.Rule {
			if errors.Is(err, command.ErrIDReused) {
				return projector.Rule{Attempts: 1, Then: projector.Skip}
			}
			return projector.Rule{}
		}
		for name, judge := range map[string]func(error) projector.Rule{"halts": nil, "passes": pass} {
			model := memtarget.New[int]()
			p := projector.New(s, model, projector.Config{Name: name, Events: events, Failures: projector.Policy{Judge: judge}},
				shipping(command.NewRunner(s, command.Config{})))
			stop := start(p)
			synctest.Wait()
			time.Sleep(time.Minute) // all tries
			err := p.WaitFor(t.Context(), d.Position)
			state, stateErr := model.State(t.Context(), projector.Name{Projector: name, Boundary: "default"})
			require.NoError(t, stateErr)
			if judge == nil {
				require.ErrorIs(t, err, projector.ErrHalted)
				require.Zero(t, state.Skipped)
			} else {
				require.NoError(t, err)
				require.Equal(t, int64(1), state.Skipped)
			}
			stop()
		}
		require.Len(t, found(t, s, shipped{}), 1)
	})
}

// A batch that is rolled back behind a reaction delivers its event again.
func TestBatchThatIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer s.Close()
		happens(s, stock(9))
		happens(s, paid{"o1"})
		d := happened(s, paid{"bad"})
		model, deliveries := memtarget.New[int](), 0
		handler := shipping(command.NewRunner(s, command.Config{}))
		p := projector.New(s, model, projector.Config{Name: "shipping", Events: events},
			func(ctx context.Context, tx tx, d projector.Delivery) error {
				switch e, _ := d.Event.(paid); {
				case e.Order == "o1":
					deliveries++
				case e.Order == "bad" && d.Attempt == 1:
					return fmt.Errorf("not now")
				}
				return handler(ctx, tx, d)
			})
		stop := start(p)
		require.NoError(t, p.WaitFor(t.Context(), d.Position))
		stop()
		require.Equal(t, 2, deliveries)
		require.Len(t, found(t, s, shipped{}), 2, "o1 and bad")
	})
}

// Two reactions in two boundaries that cause each other: the projector that
// finds it halts.
func TestLoopHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := memstore.New(), memstore.New()
		defer here.Close()
		defer there.Close()
		begin := happened(here, paid{"o"})
		var steps atomic.Int64
		model := memtarget.New[int]()
		react := func(name string, from, to eventstore.Store) *projector.Projector[tx] {
			r := command.NewRunner(to, command.Config{})
			return projector.New(from, model, projector.Config{Name: name, Events: events, Failures: projector.Policy{Attempts: 1}},
				func(ctx context.Context, _ tx, d projector.Delivery) error {
					if steps.Add(1) > 100 {
						return errors.New("the loop was not found")
					}
					return reaction.Run(reaction.WithMaxDepth(ctx, 5), r, d, name, say{[]event.Event{d.Event}})
				})
		}
		forth, back := react("forth", here, there), react("back", there, here)
		stop1, stop2 := start(forth), start(back)
		synctest.Wait()
		all := append(found(t, here, paid{}), found(t, there, paid{})...)
		require.Len(t, all, 6)
		for _, r := range all {
			require.Equal(t, begin.Metadata.Correlation, r.Metadata.Correlation)
		}
		lag, err := back.Lag(t.Context())
		require.NoError(t, err)
		require.Contains(t, lag.Failure.Error, `reaction "back" to event `+lag.Failure.EventID.String())
		require.Contains(t, lag.Failure.Error, reaction.ErrLoop.Error())
		require.True(t, lag.Failure.Halted)
		stop1()
		stop2()
	})
}

// Both stores fail in every way, and the workers are stopped and started at any
// moment: each event has had its one command.
func TestSimulation(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
	}
}

func simulate(t *testing.T, seed uint64) {
	const orders = 200
	random := rand.New(rand.NewPCG(seed, 1))
	log, shop := memstore.New(), memstore.New()
	defer log.Close()
	defer shop.Close()
	happens(shop, stock(orders/2))
	faulty := [2]*storefault.Store{
		storefault.New(log, storefault.Rough(seed, 0.05)), storefault.New(shop, storefault.Rough(seed+1, 0.05)),
	}
	model := memtarget.New[int]()
	var last projector.Delivery
	for i := range orders {
		last = happened(log, paid{fmt.Sprint("o", i)})
	}
	var p [2]*projector.Projector[tx]
	var stop [2]func()
	run := func(i int) {
		p[i] = projector.New(faulty[0], model, projector.Config{
			Name: "shipping", Events: events, BatchSize: 20,
			Failures: projector.Policy{Attempts: 3, Then: projector.Skip, HaltRetry: time.Second},
		}, shipping(command.NewRunner(faulty[1], hasty)))
		stop[i] = start(p[i])
	}
	run(0)
	run(1)
	for kills := 0; ; kills++ {
		i := random.IntN(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(500))*time.Millisecond)
		err := p[i].WaitFor(ctx, last.Position)
		cancel()
		if err == nil {
			break
		}
		require.Less(t, kills, 5000, "seed %d: %v", seed, err)
		if random.IntN(3) == 0 {
			stop[i]()
			run(i)
		}
	}
	stop[0]()
	stop[1]()
	faulty[1].Settle()

	// Half of them were refused, for ever: what comes now changes nothing.
	happens(shop, stock(orders))
	shippedOrders, refusals := found(t, shop, shipped{}), found(t, shop, event.Marker{})
	require.Len(t, shippedOrders, orders/2, "seed %d", seed)
	require.Len(t, refusals, orders/2, "seed %d", seed)
	seen := map[string]bool{}
	for _, r := range shippedOrders {
		e, err := events.Decode(r)
		require.NoError(t, err)
		require.False(t, seen[e.(shipped).Order], "seed %d", seed)
		seen[e.(shipped).Order] = true
	}
	require.Equal(t, orders, model.Len())
	for order, times := range model.All() {
		require.Equal(t, 1, times, "seed %d: %s", seed, order)
	}
	again := command.NewRunner(shop, command.Config{})
	for r, err := range eventstore.All(t.Context(), log, consistency.All(), consistency.Position{}) {
		require.NoError(t, err)
		e, err := events.Decode(r)
		require.NoError(t, err)
		d := projector.Delivery{Record: r, Event: e}
		require.NoError(t, reaction.Run(t.Context(), again, d, "ship", ship{Order: e.(paid).Order}))
	}
	require.Len(t, found(t, shop, shipped{}), orders/2, "seed %d", seed)
}
