package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/cccgo/ccc/projector"
	"zombiezen.com/go/sqlite"
)

// A model is the file that was given to Open, the base, and what generations
// there are beside it. The base holds the pointer to the live one, which may be
// the base itself. Numbers of live generations only grow.

const (
	sqlPointer = `SELECT number, file FROM main.ccc_generation WHERE state = 'live'`
	sqlIs      = `SELECT state FROM main.ccc_generation WHERE number = ?1`
)

// The states of a generation, in ccc_generation.
const (
	building = "building" // one at most
	live     = "live"     // exactly one
	old      = "old"      // until Drop
	dropped  = "dropped"  // its file is gone, or about to go
)

// baseNumber is that of the generation in the base file.
const baseNumber = 1

// pointer is which generation is live.
type pointer struct {
	number int64
	file   string // its name, in the directory of the base; empty: the base
}

func (s *session) pointer() (p pointer, err error) {
	err = s.each(sqlPointer, func(stmt *sqlite.Stmt) error {
		p = pointer{stmt.ColumnInt64(0), stmt.ColumnText(1)}
		return nil
	})
	if err == nil && p.number == 0 {
		err = fmt.Errorf("%w: no generation is live", ErrCorrupt)
	}
	return p, err
}

// errMoved says that a file was left for another generation. Nothing was done.
var errMoved = errors.New("another generation of the model is live")

// goneError is errMoved for who works on one generation and no other.
type goneError struct {
	number int64
	state  string
}

func (e *goneError) Error() string {
	return fmt.Sprintf("generation %d of the model is neither live nor being built any more, but %s", e.number, e.state)
}

// connectError is of a connection that was not made, before anything was done
// with it: a file that was left for another one may be gone.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// base is the file that holds the pointer.
func (f *file) base() *file {
	if f.root != nil {
		return f.root
	}
	return f
}

// current makes sure that the file is the one to work on, as of s, which is in a
// transaction on it. In one that writes that holds until its end: who moves the
// pointer has the lock of the file that was live.
func (f *file) current(s *session) error {
	is := ""
	state := func(s *session) error {
		return s.each(sqlIs, func(stmt *sqlite.Stmt) error { is = stmt.ColumnText(0); return nil }, f.number)
	}
	var err error
	if f.root == nil {
		err = state(s)
	} else if err = f.root.same(); err == nil {
		err = f.root.look(context.Background(), state)
	}
	switch {
	case err != nil:
		return err
	case is == live || f.pinned && is == building:
		return nil
	case f.pinned:
		return &goneError{f.number, is}
	}
	return errMoved
}

// following is what the file of a base knows of the live generation.
type following struct {
	mu   sync.Mutex
	file *file         // of the live one, when it was asked last; nil: the base
	uses map[*file]int // calls that are under way; the last one closes what is left
}

// enter returns the file of the live generation, for one call, until leave.
func (f *file) enter(p pointer) (*file, error) {
	if p.number == f.number {
		return f, nil
	}
	w := &f.following
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil || w.file.number < p.number { // else p was read before another call's
		g, err := f.openGeneration(p, false)
		if err != nil {
			return nil, &connectError{err}
		}
		if was := w.file; was != nil && w.uses[was] == 0 {
			_ = was.close()
		}
		w.file = g
		if w.uses == nil {
			w.uses = map[*file]int{}
		}
	}
	w.uses[w.file]++
	return w.file, nil
}

func (f *file) leave(g *file) {
	if g == f {
		return
	}
	w := &f.following
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.uses[g]--; w.uses[g] > 0 {
		return
	}
	delete(w.uses, g)
	if g != w.file {
		_ = g.close() // nothing of it is needed any more
	}
}

// quick reads from a base, and then which generation is live, or both at once.
type quick func(*session) (pointer, error)

// follow runs use on the file of the live generation, and again on another one
// where that was left before anything was done. With a quick, that is all there
// is to do where the base is the live one.
func (f *file) follow(ctx context.Context, q quick, use func(*file) error) error {
	if f.root != nil {
		return use(f)
	}
	var last pointer
	var trouble error
	for {
		var p pointer
		done := false
		err := f.look(ctx, func(s *session) (err error) {
			if q == nil || f.left() {
				p, err = s.pointer()
				return err
			}
			p, err = q(s)
			done = err == nil && p.number == f.number
			return err
		})
		switch {
		case err != nil || done:
			return err
		case p == last: // nothing has moved
			return trouble
		}
		last = p
		if trouble = f.on(p, use); !errors.Is(trouble, errMoved) && !errors.As(trouble, new(*connectError)) {
			return trouble
		}
	}
}

func (f *file) on(p pointer, use func(*file) error) error {
	g, err := f.enter(p)
	if err != nil {
		return err
	}
	defer f.leave(g)
	return use(g)
}

// left says whether another generation than the base was seen live.
func (f *file) left() bool {
	f.following.mu.Lock()
	defer f.following.mu.Unlock()
	return f.following.file != nil
}

// openGeneration opens the file of a generation for those who follow the
// pointer.
func (f *file) openGeneration(p pointer, create bool) (*file, error) {
	path := f.beside(p.file)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create {
		return nil, fmt.Errorf("%s: generation %d of the model is live, and its file %s is missing: restore both from one backup, or delete both to have the model built anew: %w",
			f.path, p.number, path, fs.ErrNotExist)
	}
	g, err := openFile(path, create)
	if err != nil {
		return nil, err
	}
	g.root, g.number, g.lockWait = f, p.number, f.lockWait
	return g, nil
}

// beside is the path of a file in the base's directory.
func (f *file) beside(name string) string { return filepath.Join(filepath.Dir(f.path), name) }

// look reads what is committed in the live generation.
func (t *Target) look(ctx context.Context, read func(*session) error) error {
	return t.file.follow(ctx, func(s *session) (pointer, error) {
		// First the question: if the base is live afterwards, it was.
		if err := read(s); err != nil {
			return pointer{}, err
		}
		return s.pointer()
	}, func(g *file) error { return g.look(ctx, read) })
}

// kept is what the live generation has of a name. A base tells in the same
// statement whether it is the live one: states are read often.
func (t *Target) kept(ctx context.Context, name projector.Name) (k kept, err error) {
	read := func(s *session) (err error) {
		k, err = s.kept(name)
		return err
	}
	err = t.file.follow(ctx, func(s *session) (pointer, error) {
		if err := read(s); err != nil {
			return pointer{}, err
		}
		if k.live != baseNumber { // another one, whose file is not told, or the name is not known here
			return s.pointer()
		}
		return pointer{number: k.live}, nil
	}, func(g *file) error { return g.look(ctx, read) })
	return k, err
}

// onLive runs work in a transaction on the live generation, and committed right
// after it. It is not run again whatever its error is.
func (t *Target) onLive(ctx context.Context, work func(*file, *session) error, committed func()) error {
	var result error
	begun := false
	err := t.file.follow(ctx, nil, func(g *file) error {
		err := g.write(ctx, func(s *session) error {
			begun = true
			return work(g, s)
		}, committed)
		if !begun {
			return err
		}
		result = err
		return nil
	})
	if begun {
		return result
	}
	if gone := (*goneError)(nil); errors.As(err, &gone) {
		err = fmt.Errorf("%w: %w", projector.ErrTakenOver, err)
	}
	return err
}
