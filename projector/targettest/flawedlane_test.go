package targettest_test

import (
	"context"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
)

func (f *flawed) Lane(ctx context.Context, c projector.Claim, work func(projector.Batch[*flawedTx]) error) error {
	f.mu.Lock()
	err, s := f.usable(ctx), f.space()
	if f.has("lanes work when they cannot") {
		err, ctx = nil, context.Background()
	}
	f.lanes++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.lanes--
		f.wake()
		f.mu.Unlock()
	}()
	if err != nil {
		return err
	}
	turn := f.has("lanes take turns")
	if turn {
		select {
		case s.writer <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b := f.begin(s, c.Name, turn)
	defer b.finish()
	from, checked := b.first.Checkpoint, false
	check := func(r *row) error {
		switch {
		case f.has("lanes check the epoch once") && checked:
		case r.Epoch != c.Epoch && !f.has("lanes check no epoch"), !r.Held && !f.has("lanes go on after the release"):
			return projector.ErrTakenOver
		case f.has("lanes compare the checkpoint") && r.Checkpoint != from:
			return projector.ErrTakenOver
		}
		checked = true
		return nil
	}
	f.mu.Lock()
	err = check(b.row)
	f.mu.Unlock()
	if err != nil {
		return err
	}
	move := func(r *row) {
		switch f.flaw {
		case "a lane moves the checkpoint":
			r.Checkpoint.Position = consistency.NewPosition(0, 99)
		case "a lane removes the failure":
			r.Failure = projector.Failure{}
		case "a lane counts nothing":
			r.Applied, r.Skipped = 0, 0
		}
	}
	if f.has("commits a lane that panicked") {
		defer func() {
			if r := recover(); r != nil {
				_ = b.commit(ctx, check, move)
				panic(r)
			}
		}()
	}
	if err := work(b); err != nil {
		if f.has("commits a lane that failed") {
			_ = b.commit(ctx, check, move)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return b.collided(err)
	}
	return b.commit(ctx, check, move)
}
