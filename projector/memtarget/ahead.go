package memtarget

import (
	"context"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// Ahead implements [projector.Generations].
func (h *handle[V]) Ahead(ctx context.Context, name projector.Name, after consistency.Position) ([]uuid.UUID, error) {
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if err := h.usable(ctx, "marks of", name); err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for id, at := range h.model().of(name).done {
		if at.After(after) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
