package effecttarget

import "github.com/cccgo/ccc/projector"

// Freeze keeps the owner of a name from renewing its lease.
func (t *core[Tx]) Freeze(name projector.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[name]; h != nil {
		h.frozen = true
	}
}

// Get reads what the batch has put.
func (x *UpsertTx[V]) Get(key string) (value V, deleted, found bool) {
	u, found := x.wrote[key]
	return u.value, u.deleted, found
}
