package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
)

const (
	sqlNames = `SELECT n.projector, n.boundary, e.epoch, coalesce(x.asked, 0) FROM main.ccc_epoch e
		CROSS JOIN main.ccc_name n ON n.id = e.name LEFT JOIN main.ccc_count x ON x.name = e.name ORDER BY 1, 2`
	sqlBuilding = `SELECT number, file, note FROM main.ccc_generation WHERE state = 'building'`
	sqlNext     = `INSERT INTO main.ccc_generation (number, file, state, made, note)
		VALUES ((SELECT max(number) FROM main.ccc_generation) + 1, '', 'building', ?1, ?2) RETURNING number`
	sqlNextFile = `UPDATE main.ccc_generation SET file = ?2 WHERE number = ?1`
	sqlUnbuild  = `UPDATE main.ccc_generation SET state = 'dropped' WHERE number = ?1 AND state = 'building'`
)

// genMark stands between a base's name and the number of a generation.
const genMark = "-gen-"

var _ projector.Generations[*Tx] = (*Target)(nil)

// used is a name that was claimed, with what outlives its generation.
type used struct {
	name         projector.Name
	epoch, asked int64
}

func (s *session) names() (names []used, err error) {
	err = s.each(sqlNames, func(stmt *sqlite.Stmt) error {
		names = append(names, used{projector.Name{Projector: stmt.ColumnText(0), Boundary: stmt.ColumnText(1)}, stmt.ColumnInt64(2), stmt.ColumnInt64(3)})
		return nil
	})
	return names, err
}

// Names implements [projector.Generations]: the names that were claimed.
func (t *Target) Names(ctx context.Context) ([]projector.Name, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.calls.Done()
	var all []used
	err := t.look(ctx, func(s *session) (err error) {
		all, err = s.names()
		return err
	})
	if err != nil {
		return nil, t.file.failure("names", err)
	}
	var names []projector.Name
	for _, u := range all {
		names = append(names, u.name)
	}
	return names, nil
}

// Ahead implements [projector.Generations].
func (t *Target) Ahead(ctx context.Context, name projector.Name, after consistency.Position) ([]uuid.UUID, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.calls.Done()
	var ids []uuid.UUID
	err := t.look(ctx, func(s *session) error {
		ids = nil
		name, err := s.id(name)
		if err != nil {
			return err
		}
		return s.each(sqlAhead, func(stmt *sqlite.Stmt) error {
			var id uuid.UUID
			stmt.ColumnBytes(0, id[:])
			ids = append(ids, id)
			return nil
		}, name, after.String())
	})
	if err != nil {
		return nil, t.file.failure("marks of "+name.String(), err)
	}
	return ids, nil
}

// generation implements [projector.Generation]. Its Target works on this
// generation and no other.
type generation struct{ *Target }

// Next implements [projector.Generations]. The generation is a file beside this
// one, <name>-gen-<number>, with the tables of the scripts that were given to
// Open, or, without any, of those that were run on the live one. It must be
// closed before the Target is.
func (t *Target) Next(ctx context.Context, tag string) (projector.Generation[*Tx], error) {
	g, err := t.next(ctx, tag)
	if errors.Is(err, ErrScriptChanged) || errors.Is(err, ErrNewerSchema) {
		// Other scripts have begun it: what they made is not what is wanted.
		if err = t.unbuild(ctx); err == nil {
			g, err = t.next(ctx, tag)
		}
	}
	if err != nil {
		return nil, t.file.failure("next generation", err)
	}
	return g, nil
}

func (t *Target) next(ctx context.Context, tag string) (_ *generation, err error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	base := t.file
	if base.root != nil {
		return nil, errOneGeneration
	}
	scripts := t.scripts
	if len(scripts) == 0 {
		if scripts, err = t.ranScripts(ctx); err != nil {
			return nil, err
		}
	}
	var p pointer
	err = base.administer(ctx, func(s *session) error {
		p, err = s.building(base, tag)
		return err
	})
	if err != nil {
		return nil, err
	}
	base.clean(ctx)
	f, err := base.openGeneration(p, true)
	if err != nil {
		return nil, err
	}
	f.pinned = true
	if err := f.runScripts(scripts); err != nil {
		return nil, errors.Join(err, f.close())
	}
	files.mu.Lock()
	base.refs++
	files.mu.Unlock()
	g := newTarget(f)
	g.lease, g.waitAtMost = t.lease, t.waitAtMost
	return &generation{g}, nil
}

// ranScripts are those of the live generation.
func (t *Target) ranScripts(ctx context.Context) (texts []string, err error) {
	err = t.look(ctx, func(s *session) error {
		texts = nil
		return s.each(sqlScripts, func(stmt *sqlite.Stmt) error {
			texts = append(texts, stmt.ColumnText(0))
			return nil
		})
	})
	return texts, err
}

// administer runs work in a transaction on a base, whatever is live.
func (f *file) administer(ctx context.Context, work func(*session) error) error {
	return f.locked(ctx, func(*session) error { return nil }, func(s *session) error {
		if err := work(s); err != nil {
			return err
		}
		return sqlitedb.Commit(s.conn)
	})
}

// building finds the generation that is being built under a tag, or begins it in
// the place of any other.
func (s *session) building(base *file, tag string) (p pointer, err error) {
	var found pointer
	var note string
	err = s.each(sqlBuilding, func(stmt *sqlite.Stmt) error {
		found, note = pointer{stmt.ColumnInt64(0), stmt.ColumnText(1)}, stmt.ColumnText(2)
		return nil
	})
	if err != nil || found.number != 0 && note == tag {
		return found, err
	}
	if found.number != 0 {
		if err := s.do(sqlUnbuild, found.number); err != nil {
			return p, err
		}
	}
	err = s.each(sqlNext, func(stmt *sqlite.Stmt) error { p.number = stmt.ColumnInt64(0); return nil }, time.Now().UnixMicro(), tag)
	if err != nil {
		return p, err
	}
	p.file = fmt.Sprint(filepath.Base(base.path), genMark, p.number)
	// The base may be a backup, and what stands there is of a later day.
	if err := removeDatabase(base.beside(p.file)); err != nil {
		return p, err
	}
	return p, s.do(sqlNextFile, p.number, p.file)
}

// unbuild gives up the generation that is being built.
func (t *Target) unbuild(ctx context.Context) error {
	return t.file.administer(ctx, func(s *session) error {
		var number int64
		err := s.each(sqlBuilding, func(stmt *sqlite.Stmt) error { number = stmt.ColumnInt64(0); return nil })
		if err != nil {
			return err
		}
		return s.do(sqlUnbuild, number)
	})
}
