package orisuntest

import (
	"cmp"
	"context"
	"slices"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/orisun/wire"
)

func sortRecords(records []event.Record) {
	slices.SortFunc(records, func(a, b event.Record) int { return a.Position.Compare(b.Position) })
}

// index remembers a definition, to list it as ready.
func (b *boundary) index(in *wire.CreateIndexRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.indexes[in.GetName()] = &wire.IndexDefinition{Name: in.GetName(), Fields: in.GetFields(), State: wire.IndexState_READY}
}

// ListIndexes lists what CreateIndex was called with.
func (s *Server) ListIndexes(_ context.Context, in *wire.ListIndexesRequest) (*wire.ListIndexesResponse, error) {
	b, err := s.active(in.GetBoundary())
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := &wire.ListIndexesResponse{}
	for _, index := range b.indexes {
		out.Indexes = append(out.Indexes, index)
	}
	slices.SortFunc(out.Indexes, func(a, b *wire.IndexDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}
