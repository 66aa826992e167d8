package memtarget

import (
	"iter"
	"maps"
)

// Tx is what a handler reads and writes the model with. It ends with its batch,
// and is for one goroutine. If another transaction changes what it has read, it
// cannot be committed any more and is run again.
type Tx[V any] struct {
	family *family[V]
	model  *model[V]
	owned  *owned[V]
	wrote  map[string]value[V] // on top of what is committed

	// What follows is guarded by family.mu.
	over  bool
	turn  bool // it holds the writer's token
	reads reads
	clash string // what another transaction changed after it was read here
}

type value[V any] struct {
	is      V
	deleted bool
}

// Get reads a value as this transaction sees it. A value that holds a map,
// slice or pointer is shared with the model: put a changed copy.
func (x *Tx[V]) Get(key string) (V, bool) {
	if v, ok := x.wrote[key]; ok {
		return v.is, !v.deleted
	}
	x.family.mu.Lock()
	defer x.family.mu.Unlock()
	x.reads.values[key] = struct{}{}
	v, ok := x.model.values[key]
	return v, ok
}

// Put sets a value.
func (x *Tx[V]) Put(key string, v V) { x.wrote[key] = value[V]{is: v} }

// Delete removes a value; one that is not there is no matter.
func (x *Tx[V]) Delete(key string) { x.wrote[key] = value[V]{deleted: true} }

// All walks over the values as this transaction sees them when the walk
// begins, by key.
func (x *Tx[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		x.family.mu.Lock()
		x.reads.all = true
		values := maps.Clone(x.model.values)
		x.family.mu.Unlock()
		write(values, x.wrote)
		sorted(values)(yield)
	}
}

func write[V any](values map[string]V, over map[string]value[V]) {
	for key, v := range over {
		if v.deleted {
			delete(values, key)
		} else {
			values[key] = v.is
		}
	}
}
