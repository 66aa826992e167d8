package memtarget

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cccgo/ccc/projector"
)

// Generation implements [projector.Generation]: a model beside the live one.
type Generation[V any] struct{ *handle[V] }

// Names implements [projector.Generations].
func (t *Target[V]) Names(ctx context.Context) ([]projector.Name, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("memtarget: names: %w", context.Cause(ctx))
	}
	t.family.mu.Lock()
	defer t.family.mu.Unlock()
	var names []projector.Name
	for name, o := range t.family.live.names {
		if t.state(o) != (projector.State{}) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b projector.Name) int {
		if c := strings.Compare(a.Projector, b.Projector); c != 0 {
			return c
		}
		return strings.Compare(a.Boundary, b.Boundary)
	})
	return names, nil
}

// Next implements [projector.Generations]. What it returns is a [*Generation].
func (t *Target[V]) Next(ctx context.Context, tag string) (projector.Generation[*Tx[V]], error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("memtarget: next generation %q: %w", tag, context.Cause(ctx))
	}
	f := t.family
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil && f.next.tag != tag {
		f.next.dropped = true
		f.next.freeAll()
		f.next = nil
	}
	if f.next == nil {
		f.next = newModel[V](tag)
	}
	return &Generation[V]{&handle[V]{family: f, fixed: f.next}}, nil
}

// Drop implements [projector.Generations].
func (t *Target[V]) Drop(ctx context.Context) (int, error) {
	if ctx.Err() != nil {
		return 0, fmt.Errorf("memtarget: drop old generations: %w", context.Cause(ctx))
	}
	t.family.mu.Lock()
	defer t.family.mu.Unlock()
	n := len(t.family.old)
	t.family.old = nil
	return n, nil
}

// freeAll ends all claims and transactions.
func (m *model[V]) freeAll() {
	for _, o := range m.names {
		m.free(o)
	}
}

// Close implements [projector.Generation]. It releases what was claimed through
// this value.
func (g *Generation[V]) Close() error {
	g.family.mu.Lock()
	defer g.family.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	for _, o := range g.fixed.names {
		if o.by == g.handle && o.held {
			g.fixed.free(o)
		}
		o.wake() // whoever waits through this value
	}
	return nil
}
