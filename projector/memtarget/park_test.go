package memtarget_test

import (
	"testing"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func parked(n uint64, keys ...string) projector.Parked {
	return projector.Parked{Record: event.Record{ID: uuid.New(), Type: "Added", Position: at(n).Position}, Keys: keys}
}

// What is parked belongs to the target: who parked it or reads it can go on
// using the slices.
func TestParkedIsACopy(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	p := parked(1, "k")
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { return b.Park(p) }))
	p.Keys[0] = "x"
	list, err := m.Parked(t.Context(), name, projector.ParkedQuery{})
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, list[0].Keys)
	list[0].Keys[0] = "y"
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error {
		is, err := b.IsParked([]string{"k"})
		require.True(t, is)
		p, _, _ := b.FirstParked("k")
		p.Keys[0] = "z"
		return err
	}))
	list, err = m.Parked(t.Context(), name, projector.ParkedQuery{})
	require.NoError(t, err)
	require.Equal(t, []string{"k"}, list[0].Keys)
}

// Times are kept as other targets keep them.
func TestParkedTimes(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	p, when := parked(1, "k"), time.Date(2026, 1, 2, 3, 4, 5, 123_456_789, time.FixedZone("here", 3600))
	p.Record.Time, p.First, p.Last, p.Since, p.Due = when, when, when, when, when
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { return b.Park(p) }))
	list, err := m.Parked(t.Context(), name, projector.ParkedQuery{})
	require.NoError(t, err)
	kept := time.Date(2026, 1, 2, 2, 4, 5, 123_456_000, time.UTC)
	for _, got := range []time.Time{list[0].Record.Time, list[0].First, list[0].Last, list[0].Since, list[0].Due} {
		require.Equal(t, kept, got)
	}
}

func TestParkRefuses(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error {
		require.ErrorContains(t, b.Park(parked(0, "k")), "it has to have a position and a key")
		require.ErrorContains(t, b.Park(parked(1)), "it has to have a position and a key")
		require.NoError(t, b.Park(parked(1, "k")))
		require.ErrorContains(t, b.Settle(at(1).Position, "", ""), "is no outcome")
		return nil
	}))
}

// One that was settled can be parked anew; then it waits, and only waits.
func TestParkedAnew(t *testing.T) {
	m := memtarget.New[string]()
	claim := claimed(t, m)
	for range 2 {
		require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { return b.Park(parked(1, "k")) }))
		require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { return b.Settle(at(1).Position, projector.Discarded, "why") }))
	}
	list, err := m.Parked(t.Context(), name, projector.ParkedQuery{Settled: true})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, m.Lane(t.Context(), claim, func(b batch) error { return b.Park(list[0]) }))
	list, err = m.Parked(t.Context(), name, projector.ParkedQuery{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Zero(t, list[0].Settled)
	require.Zero(t, list[0].Outcome)
	list, err = m.Parked(t.Context(), name, projector.ParkedQuery{Settled: true})
	require.NoError(t, err)
	require.Empty(t, list)
}
