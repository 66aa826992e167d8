package effecttarget

import (
	"fmt"
	"time"

	"github.com/cccgo/ccc/projector"
)

// document is all that is kept under a name. Its methods check first and change
// afterwards: one that returns an error has changed nothing. Times are the
// keeper's, UTC, in whole microseconds.
type document struct {
	name       projector.Name
	epoch      int64
	held       bool // not released
	until      time.Time
	checkpoint projector.Checkpoint
	moved      time.Time
	failure    projector.Failure
	applied    int64
	skipped    int64
	asked      int64
	marks      marks
	park       park
}

func newDocument(name projector.Name) *document {
	return &document{name: name, marks: marks{}, park: newPark()}
}

// micros is a time as documents and states hold it.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// live says whether the name must not be claimed.
func (d *document) live(now time.Time) bool { return d.held && now.Before(d.until) }

func (d *document) claim(now time.Time, lease time.Duration) (projector.Claim, error) {
	if d.live(now) {
		return projector.Claim{}, fmt.Errorf("%w (epoch %d)", projector.ErrHeld, d.epoch)
	}
	d.epoch++
	d.held, d.until = true, micros(now.Add(lease))
	return projector.Claim{Name: d.name, Epoch: d.epoch}, nil
}

// ours says whether the claim is the newest and not released. The lease does
// not matter: the epoch protects.
func (d *document) ours(claim projector.Claim) error {
	if d.held && d.epoch == claim.Epoch {
		return nil
	}
	return fmt.Errorf("%w: epoch %d is over, the latest is %d", projector.ErrTakenOver, claim.Epoch, d.epoch)
}

func (d *document) renew(claim projector.Claim, until time.Time) error {
	if err := d.ours(claim); err != nil {
		return err
	}
	d.until = micros(until)
	return nil
}

// release says whether there was something to give back.
func (d *document) release(claim projector.Claim) bool {
	if d.ours(claim) != nil {
		return false
	}
	d.held = false
	return true
}

func (d *document) fail(claim projector.Claim, f projector.Failure) error {
	if err := d.ours(claim); err != nil {
		return err
	}
	f.First, f.Last = micros(f.First), micros(f.Last)
	if f.Position == d.failure.Position && f.Discard == "" {
		f.Discard = d.failure.Discard
	}
	d.failure = f
	return nil
}

// at says whether the claim is good and the checkpoint is where its owner left it.
func (d *document) at(claim projector.Claim, from projector.Checkpoint) error {
	if err := d.ours(claim); err != nil {
		return err
	}
	if d.checkpoint != from {
		return fmt.Errorf("%w: the checkpoint is %s, not %s", projector.ErrTakenOver, d.checkpoint.Position, from.Position)
	}
	return nil
}

// move says whether anything changed.
func (d *document) move(to projector.Checkpoint, now time.Time) bool {
	passed := d.failure != (projector.Failure{}) && !d.failure.Position.After(to.Position)
	if passed {
		d.failure = projector.Failure{}
	}
	if to == d.checkpoint {
		return passed
	}
	d.checkpoint, d.moved = to, micros(now)
	return true
}

// do takes what a batch did. What is done already is no matter: it may be done
// again after a save whose answer was lost.
func (d *document) do(o *ops, now time.Time) (changed bool) {
	if !o.forgot.IsZero() {
		changed = d.marks.forget(o.forgot)
	}
	for id, at := range o.marks {
		if d.marks[id] != at {
			d.marks[id], changed = at, true
		}
	}
	d.marks.bound(d.checkpoint.Position)
	for _, step := range o.parks {
		changed = d.take(step, o.asked, now) || changed
	}
	d.applied += int64(o.applied)
	d.skipped += int64(o.skipped)
	return changed || o.applied != 0 || o.skipped != 0
}

func (d *document) take(step parkStep, asked int64, now time.Time) bool {
	p := step.parked
	if step.outcome != "" {
		return d.park.settle(p.Record.Position, step.outcome, step.reason, micros(now))
	}
	// An operator's word that came since the batch began was not seen by it, and
	// is not for it to undo.
	if is, waits := d.park.waiting[p.Record.Position]; waits && d.asked > asked && is.Due.Equal(askedDue) {
		p.Due, p.Discard = is.Due, is.Discard
	}
	d.park.put(p)
	return true
}

// state is what the document says. Whether the name is held depends on the time.
func (d *document) state() projector.State {
	return projector.State{
		Checkpoint: d.checkpoint, Failure: d.failure, Epoch: d.epoch,
		Moved: d.moved, Applied: d.applied, Skipped: d.skipped, Marked: len(d.marks) > 0,
		Parked: len(d.park.waiting), Due: d.park.due(), Asked: d.asked,
	}
}
