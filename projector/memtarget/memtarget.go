package memtarget

import (
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
)

const (
	defaultLease = 10 * time.Second
	// waitAtMost is how long Wait may stand without a change. Every change
	// wakes it, so this is only a net.
	waitAtMost = 5 * time.Second
)

// Target is a read model in memory. Make it with [New].
type Target[V any] struct {
	// Lease is how long the owner of a name may be frozen ([Target.Freeze])
	// before another one can claim it. Zero means 10 s. It must not be changed
	// once the target is in use.
	Lease time.Duration

	*handle[V]
}

// New makes an empty target.
func New[V any]() *Target[V] {
	t := &Target[V]{}
	t.handle = &handle[V]{family: &family[V]{target: t, live: newModel[V]("")}}
	return t
}

// Promise implements [projector.Target].
func (h *handle[V]) Promise() projector.Promise { return projector.ExactlyOnce }

// family is all generations of one model.
type family[V any] struct {
	target *Target[V]

	mu   sync.Mutex // held for moments only; it guards all generations
	live *model[V]
	next *model[V] // the one that is being built; may be nil
	old  []*model[V]
}

// handle works on one generation: it has what [Target] and [Generation] have in
// common.
type handle[V any] struct {
	family *family[V]
	fixed  *model[V] // nil: whichever is live
	closed bool      // guarded by family.mu, as is what follows from it
}

// model is the one that the handle works on now. The family is locked.
func (h *handle[V]) model() *model[V] {
	if h.fixed != nil {
		return h.fixed
	}
	return h.family.live
}
