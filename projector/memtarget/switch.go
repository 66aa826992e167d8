package memtarget

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/cccgo/ccc/projector"
)

// Switch implements [projector.Generation]. While ready runs, commits to the
// live generation wait, and so do Fail and Ask.
func (g *Generation[V]) Switch(ctx context.Context, ready func(context.Context) error) error {
	live, err := g.hold(ctx)
	if err != nil {
		return err
	}
	held := true
	letGo := func() { // the family is locked
		if held {
			held = false
			close(live.held)
			live.held = nil
		}
	}
	defer func() { // also when ready panics
		g.family.mu.Lock()
		defer g.family.mu.Unlock()
		letGo()
	}()
	if err := ready(ctx); err != nil {
		return err
	}
	g.family.mu.Lock()
	defer g.family.mu.Unlock()
	if err := g.buildable(ctx, "switch"); err != nil {
		return err
	}
	g.family.swap()
	letGo()
	return nil
}

// hold keeps everybody from committing to the live generation.
func (g *Generation[V]) hold(ctx context.Context) (*model[V], error) {
	for {
		g.family.mu.Lock()
		err, live := g.buildable(ctx, "switch"), g.family.live
		other := live.held
		if err == nil && other == nil {
			live.held = make(chan struct{})
		}
		g.family.mu.Unlock()
		if err != nil || other == nil {
			return live, err
		}
		select {
		case <-other:
		case <-ctx.Done():
		}
	}
}

// buildable says whether this is the generation that is being built. The family
// is locked.
func (g *Generation[V]) buildable(ctx context.Context, doing string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("memtarget: %s generation %q: %w", doing, g.fixed.tag, context.Cause(ctx))
	case g.closed:
		return fmt.Errorf("memtarget: %s generation %q: this generation's %w: open it again with Next", doing, g.fixed.tag, projector.ErrClosed)
	case g.fixed != g.family.next:
		return fmt.Errorf("memtarget: %s generation %q: %w: it is not being built any more, it is live or was dropped", doing, g.fixed.tag, projector.ErrClosed)
	}
	return nil
}

// swap makes the next generation the live one.
func (f *family[V]) swap() {
	was, is := f.live, f.next
	for name := range was.names {
		is.of(name)
	}
	for name, o := range is.names {
		before := was.of(name)
		if o.epoch = max(o.epoch, before.epoch); o.epoch > 0 {
			o.epoch++ // no claim has this one
		}
		o.asked += before.asked
	}
	was.freeAll()
	is.freeAll()
	f.live, f.next, f.old = is, nil, append(f.old, was)
}

// maxExamples bounds the examples of a Difference.
const maxExamples = 10

// Compare implements [projector.Generation]: values that are not deeply equal
// differ.
func (g *Generation[V]) Compare(ctx context.Context) ([]projector.Difference, error) {
	g.family.mu.Lock()
	if err := g.buildable(ctx, "compare"); err != nil {
		g.family.mu.Unlock()
		return nil, err
	}
	live, next := maps.Clone(g.family.live.values), maps.Clone(g.fixed.values)
	g.family.mu.Unlock()

	d := projector.Difference{Table: "values"}
	example := func(format string, args ...any) {
		if len(d.Examples) < maxExamples {
			d.Examples = append(d.Examples, fmt.Sprintf(format, args...))
		}
	}
	for key, l := range sorted(live) {
		n, both := next[key]
		switch {
		case !both:
			d.Live++
			example("%q is %.200v in the live generation and missing in the new one", key, l)
		case !reflect.DeepEqual(l, n):
			d.Live++
			d.Next++
			example("%q is %.200v in the live generation and %.200v in the new one", key, l, n)
		}
	}
	for key, n := range sorted(next) {
		if _, both := live[key]; !both {
			d.Next++
			example("%q is missing in the live generation and %.200v in the new one", key, n)
		}
	}
	if d.Live == 0 && d.Next == 0 {
		return nil, nil
	}
	return []projector.Difference{d}, nil
}
