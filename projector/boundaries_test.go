package projector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/stretchr/testify/require"
)

// A model that spans two boundaries: one projector each, one target, checkpoints
// apart. What they write must not depend on which comes first.
func Example_boundaries() {
	ctx, stop := context.WithCancel(context.Background())
	north, south, model := memstore.New(), memstore.New(), memtarget.New[int64]()
	inNorth := projector.New(north, model, projector.Config{Name: "totals", Boundary: "north", Events: ledger}, balance)
	inSouth := projector.New(south, model, projector.Config{Name: "totals", Boundary: "south", Events: ledger}, balance)
	ended := make(chan error)
	go func() { ended <- inNorth.Run(ctx) }()
	go func() { ended <- inSouth.Run(ctx) }()

	one, other := post(ctx, north, Posted{"ada", 100}), post(ctx, south, Posted{"ada", 11})
	fmt.Println(errors.Join(inNorth.WaitFor(ctx, one), inSouth.WaitFor(ctx, other)))
	cents, _ := model.Get("ada")
	fmt.Println(cents)
	stop()
	fmt.Println(errors.Join(<-ended, <-ended))
	// Output:
	// <nil>
	// 111
	// <nil>
}

// Each boundary has a checkpoint, a worker and a park of its own: one that is
// halted does not hold up the other.
func TestBoundaryHoldsNoOtherUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		stores, m := []*memstore.Store{memstore.New(), memstore.New()}, memtarget.New[string]()
		var at []consistency.Position
		var ps []*projector.Projector[tx]
		for i, s := range stores {
			cfg := config()
			cfg.Boundary = fmt.Sprint("b", i)
			cfg.Failures.Attempts = 1
			at = append(at, appendAll(t, s, numbers(t, cfg.Boundary, 3)...))
			ps = append(ps, projector.New(s, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
				if e := d.Event.(Added); e.Key == "b1" && e.N == 2 {
					return errTest
				}
				return add(ctx, x, d)
			}))
		}
		for _, p := range ps {
			defer start(t, p).stop(t)
		}
		require.NoError(t, ps[0].WaitFor(short(t), at[0]))
		require.ErrorIs(t, ps[1].WaitFor(short(t), at[1]), projector.ErrHalted)
		require.Equal(t, map[string]string{"b0": list(3), "b1": list(1)}, values(m))
	})
}
