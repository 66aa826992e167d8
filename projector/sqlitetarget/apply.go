package sqlitetarget

import (
	"context"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// Apply implements [projector.Target]. It waits for the batches of other names,
// in order, and up to 5 s for other processes; ctx ends that wait, a handler's
// statement, and a commit that has not begun.
func (t *Target) Apply(ctx context.Context, claim projector.Claim, from projector.Checkpoint,
	work func(projector.Batch[*Tx]) (projector.Checkpoint, error),
) error {
	var failed error // work's own, returned as it is
	var o *owner
	var lost map[projector.Name]lease
	var renewedAt time.Time
	err := t.write(ctx, "apply "+claim.Name.String(), func(ctx context.Context, g *file, s *session) error {
		k, err := s.ours(claim)
		if err != nil {
			return err
		}
		if k.checkpoint != from {
			return fmt.Errorf("%w: the checkpoint is %s (event %s), not %s (event %s)", projector.ErrTakenOver,
				k.checkpoint.Position, k.checkpoint.EventID, from.Position, from.EventID)
		}
		x := newTx(ctx, s, handlers)
		defer x.end() // also when work panics
		b := &batch{tx: x, name: k.id, parked: k.parked}
		to, err := work(b)
		x.end()
		if err != nil {
			failed = err
			return err
		}
		if err := x.over(); err != nil {
			return err
		}
		if from.Position.After(to.Position) {
			return fmt.Errorf("the checkpoint would go back from %s to %s", from.Position, to.Position)
		}
		if err := s.advance(k, to, b); err != nil {
			return err
		}
		// Under load the heartbeat may wait long for its turn. This is one.
		var due map[projector.Name]lease
		if o, due = t.overdue(); due != nil {
			renewedAt = time.Now()
			lost, err = s.renew(g.number, due, t.lease)
		}
		return err
	}, func() {
		t.file.waiters.wake(claim.Name)
		if !renewedAt.IsZero() {
			t.renewed(o, renewedAt, lost)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// overdue is due for whoever comes by.
func (t *Target) overdue() (*owner, map[projector.Name]lease) {
	t.mu.Lock()
	o := t.owner
	t.mu.Unlock()
	if o == nil {
		return nil, nil
	}
	due, _ := t.due(o)
	return o, due
}

// ours reads what is kept under a claim's name, if the claim is the newest one
// and not released.
func (s *session) ours(claim projector.Claim) (kept, error) {
	k, err := s.kept(claim.Name)
	if err == nil && (!k.held || k.epoch != claim.Epoch) {
		err = fmt.Errorf("%w: epoch %d is over, the latest is %d", projector.ErrTakenOver, claim.Epoch, k.epoch)
	}
	return k, err
}

// advance moves the checkpoint, with what the batch has counted. What stood in
// the way up to there is gone.
func (s *session) advance(k kept, to projector.Checkpoint, b *batch) error {
	if to != k.checkpoint || b.applied != 0 || b.skipped != 0 {
		if err := s.setCheckpoint(k, to, b.applied, b.skipped); err != nil {
			return err
		}
	}
	if b.parkedMore != 0 {
		if err := s.do(sqlParkedMore, k.id, b.parkedMore); err != nil {
			return err
		}
	}
	if k.failure != (projector.Failure{}) && !k.failure.Position.After(to.Position) {
		return s.setFailure(k.id, projector.Failure{})
	}
	return nil
}

// Fail implements [projector.Target].
func (t *Target) Fail(ctx context.Context, claim projector.Claim, failure projector.Failure) error {
	return t.write(ctx, "failure of "+claim.Name.String(), func(_ context.Context, _ *file, s *session) error {
		k, err := s.ours(claim)
		if err != nil {
			return err
		}
		if was := k.failure; was.Discard != "" && was.Position == failure.Position {
			failure.Discard = was.Discard // said since the worker looked
		}
		return s.setFailure(k.id, failure)
	}, func() { t.file.waiters.wake(claim.Name) })
}

// batch implements [projector.Batch].
type batch struct {
	tx   *Tx
	name int64

	applied, skipped int
	parked           int // events, before the batch
	parkedMore       int // by the batch
	keys             keys
}

func (b *batch) Tx() *Tx { return b.tx }

func (b *batch) Seen(id uuid.UUID) (seen bool, err error) {
	err = b.tx.with(ours, func(s *session) (err error) {
		seen, err = s.seen(b.name, id)
		return err
	})
	return seen, err
}

func (b *batch) Done(id uuid.UUID, at consistency.Position) error {
	return b.tx.with(ours, func(s *session) error { return s.do(sqlDone, b.name, id[:], at.String()) })
}

func (b *batch) Forget(upTo consistency.Position) error {
	return b.tx.with(ours, func(s *session) error { return s.do(sqlForget, b.name, upTo.String()) })
}

func (b *batch) Count(applied, skipped int) {
	b.applied += applied
	b.skipped += skipped
}

// Promise implements [projector.Target].
func (*Target) Promise() projector.Promise { return projector.ExactlyOnce }
