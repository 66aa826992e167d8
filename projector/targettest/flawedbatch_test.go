package targettest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// flawedTx is a transaction of flawed, and its batch. What it does to the name's
// row it does to a copy for each look, and to the row itself when it is committed.
type flawedTx struct {
	target *flawed
	space  *space
	name   projector.Name
	row    *row
	first  *row // as it was when the transaction began
	ops    []func(*row)
	wrote  map[string]string
	read   map[string]string // and what was there; "" for nothing
	marks  map[uuid.UUID]bool
	turn   bool // it holds the writer's token
}

// collided takes the place of any other error, if what was read has changed.
func (x *flawedTx) collided(err error) error {
	f := x.target
	if f.has("transactions run side by side") || f.has("lanes overwrite each other") || err != nil && f.has("a lane's own error comes first") {
		return err
	}
	for key, was := range x.read {
		if x.space.values[key] != was {
			if f.has("lanes have another error") {
				return errors.New("run it again")
			}
			return projector.ErrCollided
		}
	}
	for id := range x.marks {
		if _, ok := x.row.done[id]; ok && !f.has("lanes mark the same event") {
			return projector.ErrCollided
		}
	}
	return err
}

// view is the row as the batch sees it.
func (x *flawedTx) view() *row {
	from := x.row
	if x.target.has("a lane sees what was there at its beginning") {
		from = x.first
	}
	c := from.copy()
	for _, op := range x.ops {
		op(c)
	}
	return c
}

func (f *flawed) begin(s *space, n projector.Name, turn bool) *flawedTx {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rowIn(s, n)
	x := &flawedTx{target: f, space: s, name: n, row: r, first: r.copy(), wrote: map[string]string{}, read: map[string]string{}, marks: map[uuid.UUID]bool{}, turn: turn}
	if turn {
		r.running = x
	}
	return x
}

func (x *flawedTx) finish() {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	x.end()
}

// end gives the writer's token back, once.
func (x *flawedTx) end() {
	if x.turn {
		x.turn = false
		<-x.space.writer
	}
	if x.row.running == x {
		x.row.running = nil
	}
}

func (x *flawedTx) commit(ctx context.Context, check func(*row) error, move func(*row)) error {
	f := x.target
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.hold(ctx, x.space); err != nil {
		return err
	}
	s, r := x.space, x.row
	if f.has("a held batch lands in the new generation") && s != f.space() {
		s, r = f.space(), f.row(x.name)
	} else if err := check(r); err != nil {
		return err
	}
	if err := x.collided(nil); err != nil {
		return err
	}
	maps.Copy(s.values, x.wrote)
	for _, op := range x.ops {
		op(r)
	}
	if move != nil {
		move(r)
	}
	f.wake()
	return nil
}

// do changes the row at the commit.
func (x *flawedTx) do(op func(*row)) {
	if x.target.has("none, but the effect comes first") {
		x.now(op)
	} else {
		x.ops = append(x.ops, op)
	}
}

// now changes the row at once.
func (x *flawedTx) now(op func(*row)) {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	op(x.row)
}

func (x *flawedTx) Tx() *flawedTx { return x }

func (x *flawedTx) Seen(id uuid.UUID) (bool, error) {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	if x.target.has("one list of marks") {
		for _, r := range x.space.names {
			if _, ok := r.done[id]; ok {
				return true, nil
			}
		}
	}
	from := x.view()
	if x.target.has("does not see its own marks") || x.target.has("does not see what it forgot") || x.target.has("a lane shows marks at once") {
		from = x.row
	}
	_, ok := from.done[id]
	return ok, nil
}

func (x *flawedTx) Done(id uuid.UUID, at consistency.Position) error {
	switch {
	case x.target.has("forgets marks"), x.target.has("a lane forgets marks") && !x.turn:
		return nil
	case x.target.has("a lane shows marks at once"):
		x.now(func(r *row) { r.done[id] = at })
		return nil
	}
	if err := x.mark(id, at); err != nil {
		return err
	}
	x.do(func(r *row) { r.done[id] = at })
	return nil
}

// mark says whether the event may be marked here.
func (x *flawedTx) mark(id uuid.UUID, at consistency.Position) error {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	_, before := x.first.done[id]
	_, marked := x.row.done[id]
	switch {
	case marked && x.target.has("a mark is set once"):
		return errors.New("marked already")
	case marked && !before && x.target.has("none, but the effect comes first"):
		return projector.ErrCollided
	case x.target.has("none, but the effect comes first"):
		x.row.done[id] = at
	case !marked:
		x.marks[id] = true
	}
	return nil
}

func (x *flawedTx) Forget(upTo consistency.Position) error {
	op := func(r *row) {
		for id, at := range r.done {
			after := at.After(upTo)
			switch x.target.flaw {
			case "forgets by text":
				after = fmt.Sprint(at.Parts()) > fmt.Sprint(upTo.Parts())
			case "forgets all marks":
				after = false
			case "forgets only those before":
				after = !upTo.After(at)
			case "drops no marks":
				after = true
			case "drops none of its own marks":
				_, before := x.first.done[id]
				after = after || !before
			}
			if !after {
				delete(r.done, id)
			}
		}
	}
	if x.target.has("forgets at once") {
		x.now(op)
	}
	x.do(op)
	return nil
}

func (x *flawedTx) Count(applied, skipped int) {
	switch x.target.flaw {
	case "counts only once":
		x.do(func(r *row) { r.Applied, r.Skipped = int64(applied), int64(skipped) })
		return
	case "counts at once":
		x.now(func(r *row) { r.Applied += int64(applied); r.Skipped += int64(skipped) })
		return
	case "counts no skipped ones":
		skipped = 0
	}
	x.do(func(r *row) { r.Applied += int64(applied); r.Skipped += int64(skipped) })
}

func (x *flawedTx) put(key, value string) error {
	if x.target.has("writes at once") || x.target.has("none, but the effect comes first") {
		x.target.mu.Lock()
		defer x.target.mu.Unlock()
		x.space.values[key] = value
	}
	x.wrote[key] = value
	return nil
}

func (x *flawedTx) get(key string) (string, bool, error) {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	if v, ok := x.wrote[key]; ok && !x.target.has("does not see its own writes") {
		return v, true, nil
	}
	v, ok := x.space.values[key]
	if !x.target.has("writes at once") && !x.target.has("none, but the effect comes first") {
		x.read[key] = v
	}
	return v, ok, nil
}
