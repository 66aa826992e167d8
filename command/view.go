package command

import (
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// View is what a command depends on: queries, each observed on its own, and
// how the state is made of what they show. Views come from a [Model] and from
// [Join], [Then] and [Each]; the zero View fails the command.
//
// The functions that views are made with are pure, and may be called more
// than once for a command.
type View[S any] struct {
	// eval makes the state of what has been read, or asks for more (false).
	eval func(*reading) (S, bool)
}

// Join depends on two views at one moment.
func Join[A, B, S any](a View[A], b View[B], both func(A, B) S) View[S] {
	return View[S]{func(r *reading) (S, bool) {
		sa, okA := a.of(r)
		sb, okB := b.of(r)
		if !okA || !okB {
			var zero S
			return zero, false
		}
		return both(sa, sb), true
	}}
}

// Then depends on a view, and on another one that is chosen by what the first
// shows. Both are read as of one moment and both are observed.
func Then[A, B, S any](a View[A], next func(A) View[B], both func(A, B) S) View[S] {
	node := new(byte) // the identity of this choice
	return View[S]{func(r *reading) (s S, ok bool) {
		r.branches = true
		sa, ok := a.of(r)
		if !ok {
			return s, false
		}
		b, chosen := r.chosen[node].(View[B])
		if !chosen || !r.settled {
			b = next(sa)
			r.choose(node, b)
		}
		sb, ok := b.of(r)
		if !ok {
			return s, false
		}
		return both(sa, sb), true
	}}
}

// Each depends on one view per key, all at one moment.
func Each[K comparable, S any](view func(K) View[S], keys ...K) View[map[K]S] {
	views := make(map[K]View[S], len(keys))
	for _, k := range keys {
		views[k] = view(k)
	}
	return View[map[K]S]{func(r *reading) (map[K]S, bool) {
		states, all := make(map[K]S, len(views)), true
		for _, k := range keys { // in their order, for the same reads each time
			s, ok := views[k].of(r)
			states[k], all = s, all && ok
		}
		return states, all
	}}
}

func (v View[S]) of(r *reading) (S, bool) {
	if v.eval == nil {
		var zero S
		r.fail(errNoView)
		return zero, false
	}
	return v.eval(r)
}

// leaf is one query of a view with the model that folds it.
type leaf struct {
	model  folder
	query  consistency.Query
	text   string // of the query
	latest bool
	err    error // the query cannot be asked
}

// folder is a *Model[S] of any S.
type folder interface {
	codec() *event.Codec
	zero() any
	fold(state any, records []event.Record, latest bool) (any, error)
	copies() bool       // states may be kept: copy gives one that shares nothing
	copy(state any) any // only if copies
	weigh(state any) int
}

// leafKey tells leaves apart in maps.
type leafKey struct {
	model  folder
	text   string
	latest bool
}

func (l *leaf) key() leafKey { return leafKey{l.model, l.text, l.latest} }

// reading is what a command has read of its contexts.
type reading struct {
	slots  []slot
	wanted []*leaf // asked for by the view, not read yet
	codecs []*event.Codec
	err    error

	chosen   map[*byte]any // the views that Then chose
	settled  bool          // keep to them: own events are being folded
	branches bool          // what is read depends on what was read
}

// slot is one context as read: its state and the position of its latest match.
type slot struct {
	leaf  *leaf
	state any
	at    consistency.Position
	// kept is a copy of state that no decision has touched; nil if there is
	// none, or state cannot be kept.
	kept any
	used bool // by the view, when it was evaluated last
	own  int  // how many of the command's own events were gone through when the last one was folded in
	bare bool // nothing of it was read yet
}

func evaluate[S any](v View[S], r *reading) (S, bool) {
	r.wanted = r.wanted[:0]
	for i := range r.slots {
		r.slots[i].used = false
	}
	return v.of(r)
}

func (r *reading) state(l *leaf) (any, bool) {
	r.know(l.model.codec())
	if l.err != nil {
		r.fail(l.err)
		return nil, false
	}
	for i := range r.slots {
		if s := &r.slots[i]; s.leaf == l || s.leaf.key() == l.key() {
			s.used = true
			return s.state, true
		}
	}
	for _, w := range r.wanted {
		if w == l || w.key() == l.key() {
			return nil, false
		}
	}
	r.wanted = append(r.wanted, l)
	return nil, false
}

func (r *reading) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reading) know(c *event.Codec) {
	for _, have := range r.codecs {
		if have == c {
			return
		}
	}
	r.codecs = append(r.codecs, c)
}

func (r *reading) choose(node *byte, view any) {
	if r.chosen == nil {
		r.chosen = map[*byte]any{}
	}
	r.chosen[node] = view
}

// seen is what the state came from, each query once.
func (r *reading) seen() []sighting {
	out := make([]sighting, 0, len(r.slots))
next:
	for i := range r.slots {
		s := &r.slots[i]
		if !s.used {
			continue
		}
		for _, o := range out {
			if o.leaf.text == s.leaf.text {
				continue next
			}
		}
		out = append(out, sighting{s.leaf, s.at})
	}
	return out
}

// uneven says that one query was read at two positions: only the cache can
// show that, with a query in two models.
func (r *reading) uneven() bool {
	for i := range r.slots {
		for j := range i {
			if a, b := &r.slots[i], &r.slots[j]; a.leaf.text == b.leaf.text && a.at != b.at {
				return true
			}
		}
	}
	return false
}

// sighting is an observation with the leaf that it is of.
type sighting struct {
	leaf *leaf
	at   consistency.Position
}
