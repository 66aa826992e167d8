package memtarget

import (
	"fmt"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// reads is what a transaction has read, whether it was there or not. When
// another one commits a change of it, this one cannot be committed any more.
type reads struct {
	values map[string]struct{}
	all    bool // of the values
	marks  map[uuid.UUID]struct{}
	keys   []string                          // parked or not; perhaps some of them twice, which is cheaper than a set
	parked map[consistency.Position]struct{} // what is kept of one
}

// note adds to a set that may be nil.
func note[K comparable](set *map[K]struct{}, k K) {
	if *set == nil {
		*set = map[K]struct{}{}
	}
	(*set)[k] = struct{}{}
}

// clashes tells the other transactions of the model what b is about to change.
// The family is locked.
func (b *batch[V]) clashes() {
	for x := range b.tx.model.running {
		if x != b.tx && x.clash == "" {
			x.clash = b.meets(x)
		}
	}
}

// meets names what b changes of that which x has read.
func (b *batch[V]) meets(x *Tx[V]) string {
	for key := range b.tx.wrote {
		if _, read := x.reads.values[key]; read || x.reads.all {
			return fmt.Sprintf("value %q", key)
		}
	}
	if x.owned != b.tx.owned {
		return ""
	}
	if x.reads.marks != nil {
		for id := range b.done {
			if _, read := x.reads.marks[id]; read {
				return fmt.Sprintf("the mark of event %s", id)
			}
		}
	}
	for at := range b.parked {
		if _, read := x.reads.parked[at]; read {
			return fmt.Sprintf("the event parked at %s", at)
		}
	}
	for key := range b.touched {
		if slices.Contains(x.reads.keys, key) {
			return fmt.Sprintf("what is parked for key %q", key)
		}
	}
	return ""
}

// collided returns why this one cannot be committed because of another one. The
// family is locked.
func (x *Tx[V]) collided(claim projector.Claim) error {
	if x.clash == "" {
		return nil
	}
	return fmt.Errorf("memtarget: apply %s: nothing written: %w: %s was changed after it was read here: run it again", claim.Name, projector.ErrCollided, x.clash)
}
