package sqlitetarget

import (
	"context"
	"fmt"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"zombiezen.com/go/sqlite"
)

const (
	sqlRaise     = `INSERT INTO main.ccc_epoch (name, epoch, held) VALUES (?1, ?2, 0) ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, held = 0`
	sqlRaiseAsk  = `INSERT INTO main.ccc_count (name, asked) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET asked = max(asked, excluded.asked)`
	sqlUnleaseOf = `DELETE FROM main.ccc_lease WHERE name = ?1`
	sqlHeld      = `SELECT 1 FROM main.ccc_lease LIMIT 1`
	sqlRetire    = `UPDATE main.ccc_generation SET state = 'old' WHERE number = ?1 AND state = 'live'`
	sqlGoLive    = `UPDATE main.ccc_generation SET state = 'live', switched = ?2 WHERE number = ?1 AND state = 'building'`
)

// Switch implements [projector.Generation]. While ready runs this process holds
// the lock of the live file: its readers go on, its writers wait, those of other
// processes for 5 s at a time ([ErrLocked]).
//
// Whose lock protects what: a batch commits only in a transaction that has seen,
// under the lock of its own file, that this is the live one. Switch has that lock
// from before ready until the pointer has moved. So a batch is either committed
// before ready begins, or it finds the pointer moved. The pointer moves with one
// commit of the base, which is the live file's own where that is the base. The
// new file is locked meanwhile, so that nobody claims a name in it after the
// epochs were raised, which is on the disk before the pointer moves: killed at
// any moment, the switch has happened whole, or it has not and the generation
// is found again by its tag.
func (g *generation) Switch(ctx context.Context, ready func(context.Context) error) error {
	t := g.Target
	if err := t.begin(); err != nil {
		return err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	w := &switching{next: t.file, base: t.file.root, ready: ready, at: t.moment}
	err := w.base.follow(ctx, nil, func(from *file) error {
		err := from.locked(ctx, from.current, func(s *session) error { return w.run(ctx, from, s) })
		if !w.begun {
			return err
		}
		w.err = err
		return nil
	})
	switch {
	case w.done: // whatever went wrong afterwards
		w.base.waiters.wakeAll()
		t.file.waiters.wakeAll()
		t.forgetClaims()
		return nil
	case w.refused != nil:
		return w.refused
	case err == nil:
		err = w.err
	}
	return t.file.failure("switch to this generation", err)
}

// switching is one call of Switch.
type switching struct {
	next, base *file
	ready      func(context.Context) error
	at         func(moment string) // for tests; may be nil

	begun   bool
	refused error // ready's
	err     error // of what came after begun
	done    bool
}

func (w *switching) is(moment string) {
	if w.at != nil {
		w.at(moment)
	}
}

// run has the live file, in a transaction of s.
func (w *switching) run(ctx context.Context, from *file, s *session) error {
	w.begun = true
	if err := w.building(ctx); err != nil {
		return err
	}
	w.is("locked")
	if w.refused = w.ready(ctx); w.refused != nil {
		return w.refused
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	w.is("ready")
	for first := true; ; first = false {
		again := false
		err := w.next.locked(ctx, w.next.current, func(next *session) error {
			// Between the commit of the raised epochs and this look somebody
			// may have claimed a name.
			if again, err = next.held(); err != nil {
				return err
			}
			if again = again || first; again {
				if err := next.raise(names); err != nil {
					return err
				}
				return sqlitedb.Commit(next.conn)
			}
			w.is("raised")
			return w.move(ctx, from, s)
		})
		if err != nil || !again {
			return err
		}
		w.is("between")
	}
}

// building is an error where this generation is not to go live any more.
func (w *switching) building(ctx context.Context) error {
	is := ""
	err := w.base.look(ctx, func(s *session) error {
		return s.each(sqlIs, func(stmt *sqlite.Stmt) error { is = stmt.ColumnText(0); return nil }, w.next.number)
	})
	if err == nil && is != building {
		err = fmt.Errorf("%w: generation %d is not being built, but %s", projector.ErrTakenOver, w.next.number, is)
	}
	return err
}

// move moves the pointer.
func (w *switching) move(ctx context.Context, from *file, s *session) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	move := func(base *session) error {
		for _, step := range []func() error{
			func() error { return base.do(sqlRetire, from.number) },
			func() error { return base.do(sqlGoLive, w.next.number, time.Now().UnixMicro()) },
		} {
			if err := step(); err != nil {
				return err
			}
			if base.conn.Changes() != 1 {
				return fmt.Errorf("%w: another generation is being built, or live", projector.ErrTakenOver)
			}
		}
		w.is("moving")
		if err := sqlitedb.Commit(base.conn); err != nil {
			return err
		}
		w.done = true
		w.is("moved")
		return nil
	}
	if from == w.base {
		return move(s)
	}
	return w.base.locked(ctx, func(*session) error { return nil }, move)
}

func (s *session) held() (held bool, err error) {
	err = s.each(sqlHeld, func(*sqlite.Stmt) error { held = true; return nil })
	return held, err
}

// raise ends all claims, and sets the epochs above those of both generations.
func (s *session) raise(live []used) error {
	mine, err := s.names()
	if err != nil {
		return err
	}
	above := map[projector.Name]used{}
	for _, u := range append(mine, live...) {
		was := above[u.name]
		above[u.name] = used{u.name, max(was.epoch, u.epoch), max(was.asked, u.asked)}
	}
	for name, u := range above {
		id, err := s.id(name)
		if err == nil && id == 0 {
			id, err = s.newName(name)
		}
		if err == nil {
			err = s.do(sqlRaise, id, u.epoch+1)
		}
		if err == nil {
			err = s.do(sqlUnleaseOf, id)
		}
		if err == nil && u.asked > 0 {
			err = s.do(sqlRaiseAsk, id, u.asked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// forgetClaims has the heartbeat end, and its lock with it.
func (t *Target) forgetClaims() {
	t.mu.Lock()
	o := t.owner
	held := map[projector.Name]lease{}
	if o != nil {
		for name, l := range o.held {
			held[name] = l
		}
	}
	t.mu.Unlock()
	if o != nil {
		t.lost(o, held)
	}
}

// Close implements [projector.Generation].
func (g *generation) Close() error { return g.Target.Close() }
