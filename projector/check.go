package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// Check compares the checkpoint with the log, without starting anything: a log
// that was deleted, restored from a backup or exchanged, under a model that was
// kept, is [ErrForeignLog]. Run does the same before it begins; a program that
// would rather refuse than write to the wrong log calls Check first.
func (p *Projector[Tx]) Check(ctx context.Context) error {
	if p.misuse != nil {
		return p.misuse
	}
	state, err := p.target.State(ctx, p.name)
	if err == nil {
		err = p.compare(ctx, state.Checkpoint)
	}
	if err != nil && !errors.Is(err, ErrForeignLog) { // that one names the projector itself
		return fmt.Errorf("projector %s: check: %w", p.name, err)
	}
	return err
}

// compare looks up what the log has where the checkpoint stands. It asks for a
// snapshot, because a page may lag behind.
func (p *Projector[Tx]) compare(ctx context.Context, at Checkpoint) error {
	if at.Position.IsZero() {
		return nil
	}
	foreign := &ForeignLogError{Name: p.name, Checkpoint: at, Log: p.log.Log}
	if foreign.Log != at.Log && foreign.Log != uuid.Nil && at.Log != uuid.Nil {
		return foreign
	}
	results, err := p.store.Snapshot(ctx, eventstore.Part{Query: consistency.All(), UpTo: at.Position, LatestOnly: true})
	if err != nil {
		return err
	}
	if records := results[0].Records; len(records) > 0 {
		last := records[len(records)-1]
		foreign.Found, foreign.FoundID = last.Position, last.ID
	}
	if foreign.Found == at.Position && foreign.FoundID == at.EventID {
		return nil
	}
	return foreign
}

// trust is compare for a run: what may pass is tried again.
func (r *run[Tx]) trust(ctx context.Context, at Checkpoint) error {
	for {
		err := r.compare(ctx, at)
		if err == nil {
			return nil
		}
		if err := r.trouble(ctx, "the log cannot be compared with the checkpoint", err); err != nil {
			return err
		}
	}
}
