package command

import (
	"math"

	"github.com/cccgo/ccc/consistency"
	"github.com/maypok86/otter/v2"
)

// cache keeps folded states between commands, each with the position of its
// context's latest match, up to a weight. What it holds may be old: it only
// makes first tries, which the append checks.
type cache struct {
	states *otter.Cache[leafKey, kept]
}

type kept struct {
	state any // shared with nobody
	at    consistency.Position
}

// entryWeight is about what an entry takes beside its state.
const entryWeight = 256

func newCache(bytes int64) *cache {
	if bytes < 0 {
		return &cache{}
	}
	return &cache{otter.Must(&otter.Options[leafKey, kept]{
		MaximumWeight: uint64(bytes),
		Weigher: func(k leafKey, v kept) uint32 {
			return uint32(min(int64(entryWeight)+int64(len(k.text))+int64(k.model.weigh(v.state)), math.MaxUint32))
		},
		Executor: func(work func()) { work() }, // no goroutines of its own
	})}
}

// fill gives r the state of every context it wants, or says that it cannot.
func (c *cache) fill(r *reading) bool {
	if c.states == nil {
		return false
	}
	for _, l := range r.wanted {
		if !l.model.copies() {
			return false
		}
		k, ok := c.states.GetIfPresent(l.key())
		if !ok {
			return false
		}
		r.slots = append(r.slots, slot{leaf: l, state: l.model.copy(k.state), at: k.at, kept: k.state})
	}
	return true
}

// forget drops what is kept of a context.
func (c *cache) forget(l *leaf) {
	if c.states != nil {
		c.states.Invalidate(l.key())
	}
}

// remember takes over the states of a confirmed save. state must not be used
// by anybody else.
func (c *cache) remember(l *leaf, state any, at consistency.Position) {
	if c.states == nil || !l.model.copies() {
		return
	}
	c.states.Compute(l.key(), func(old kept, found bool) (kept, otter.ComputeOp) {
		if found && old.at.After(at) {
			return old, otter.CancelOp
		}
		return kept{state, at}, otter.WriteOp
	})
}
