package memtarget

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// model is one generation: values, and what is kept for each name. The
// family's mutex guards it.
type model[V any] struct {
	tag     string
	values  map[string]V
	names   map[projector.Name]*owned[V]
	running map[*Tx[V]]struct{}
	dropped bool
	held    chan struct{} // while a switch holds commits up; closed at its end

	// writer holds a token while an Apply runs. It is a channel and no mutex:
	// handlers may take their time in it, and time that stands still goes on
	// only past goroutines that wait on channels.
	writer chan struct{}
}

// owned is what is kept for a name.
type owned[V any] struct {
	checkpoint projector.Checkpoint
	moved      time.Time
	failure    projector.Failure
	epoch      int64
	by         *handle[V] // who claimed it last
	held       bool
	frozen     time.Time // since when; zero: the owner is alive
	done       map[uuid.UUID]consistency.Position
	parked     parking
	applied    int64
	skipped    int64
	asked      int64
	changed    chan struct{} // closed at the next change
}

func newModel[V any](tag string) *model[V] {
	return &model[V]{
		tag:     tag,
		values:  map[string]V{},
		names:   map[projector.Name]*owned[V]{},
		running: map[*Tx[V]]struct{}{},
		writer:  make(chan struct{}, 1),
	}
}

func (m *model[V]) of(name projector.Name) *owned[V] {
	o := m.names[name]
	if o == nil {
		o = &owned[V]{done: map[uuid.UUID]consistency.Position{}, parked: newParking(), changed: make(chan struct{})}
		m.names[name] = o
	}
	return o
}

func (o *owned[V]) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// ours says whether the claim is the newest of its name and not released.
func (o *owned[V]) ours(claim projector.Claim) error {
	if o.held && o.epoch == claim.Epoch {
		return nil
	}
	return fmt.Errorf("memtarget: %s: %w: epoch %d is over, the latest is %d", claim.Name, projector.ErrTakenOver, claim.Epoch, o.epoch)
}

// free ends the claim of a name and its transactions.
func (m *model[V]) free(o *owned[V]) {
	o.held, o.frozen = false, time.Time{}
	m.endAll(o)
	o.wake()
}

// endAll ends the transactions of a name: what they did is nothing now.
func (m *model[V]) endAll(o *owned[V]) {
	for x := range m.running {
		if x.owned == o {
			m.end(x)
		}
	}
}

// Get reads a committed value.
func (h *handle[V]) Get(key string) (value V, ok bool) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	value, ok = h.model().values[key]
	return value, ok
}

// Len is the number of committed values.
func (h *handle[V]) Len() int {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	return len(h.model().values)
}

// All walks over the values that are committed when the walk begins, by key.
func (h *handle[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		h.family.mu.Lock()
		values := maps.Clone(h.model().values)
		h.family.mu.Unlock()
		sorted(values)(yield)
	}
}

// sorted walks over a map by key.
func sorted[V any](values map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !yield(key, values[key]) {
				return
			}
		}
	}
}

// micro is a time as it is kept.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
