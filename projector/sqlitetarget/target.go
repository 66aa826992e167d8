package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
)

// Config is how a target is opened. The zero Config is ready for production.
type Config struct {
	// NextOnly: the schema scripts are those of the next generation
	// ([Target.Next]), and the live one is taken as it is. For a program that
	// builds the model anew because its tables change.
	NextOnly bool
	// Lease is how long a worker may stand still, frozen with its process,
	// before another one can take its name over. After its end or its death
	// nobody waits for that. Zero means 10 s; less than 100 ms means that.
	Lease time.Duration
}

const (
	defaultLease = 10 * time.Second
	shortLease   = 100 * time.Millisecond
	// closeLimit is the time that giving the claims back may take in Close.
	closeLimit = 5 * time.Second
)

// Target is a read model in a SQLite file; use [Open]. It is safe for
// concurrent use.
type Target struct {
	file       *file        // the base, or one generation that is being built
	scripts    []string     // for new generations
	moment     func(string) // of Switch; for tests
	lease      time.Duration
	waitAtMost time.Duration

	ctx  context.Context // ends with Close, whose cause is ErrClosed
	stop context.CancelCauseFunc
	once sync.Once
	end  error // of Close

	mu      sync.Mutex
	closed  bool
	owner   *owner         // nil: nothing is claimed
	calls   sync.WaitGroup // Close waits for them
	running sync.WaitGroup // heartbeats
}

var _ projector.Target[*Tx] = (*Target)(nil)

// Open opens the model in a file, and makes it where it is missing. The
// directory must exist. Path is a plain path. The file, and those that are kept
// beside it while it is open (-wal, -shm, -live-…), must lie on a local disk.
//
// The scripts make the tables of the model. Each runs once, in their order; all
// that are new run in one transaction. To change the model of a released
// program, add a script: a changed one is refused ([ErrScriptChanged]), so is a
// file that has seen more scripts than there are ([ErrNewerSchema]). Blanks
// around a script do not count. Without scripts the file is taken as it is,
// which suits programs that only read.
//
// Errors say what to do; [ErrLocked], [ErrReadOnly], [ErrCorrupt], [ErrNoWAL]
// and [ErrForeignFile] are in them where they apply.
func Open(path string, scripts ...string) (*Target, error) {
	return Config{}.Open(path, scripts...)
}

// Open is [Open] with settings:
//
//	model, err := sqlitetarget.Config{Lease: 3 * time.Second}.Open("balances.db", schema)
func (c Config) Open(path string, scripts ...string) (*Target, error) {
	run := scripts
	if c.NextOnly {
		run = nil
	}
	f, err := acquire(path, run)
	if err != nil {
		return nil, fmt.Errorf("sqlitetarget: %w", err)
	}
	t := newTarget(f)
	t.scripts = scripts
	if c.Lease > 0 {
		t.lease = max(c.Lease, shortLease)
	}
	return t, nil
}

func newTarget(f *file) *Target {
	t := &Target{file: f, lease: defaultLease, waitAtMost: waitAtMost}
	t.ctx, t.stop = context.WithCancelCause(context.Background())
	return t
}

func errClosed() error { return fmt.Errorf("sqlitetarget: %w", projector.ErrClosed) }

// begin counts a call, so that Close waits for it. Each has its calls.Done.
func (t *Target) begin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed()
	}
	t.calls.Add(1)
	return nil
}

// Close gives all claims back, so that standbys take over at once, and closes
// the file. Waits and reads end with [projector.ErrClosed]; a batch is rolled
// back, and its handler is waited for. Close the target after the projectors'
// Run has returned.
func (t *Target) Close() error {
	t.once.Do(func() {
		t.mu.Lock()
		t.closed = true
		t.mu.Unlock()
		t.stop(projector.ErrClosed)
		t.calls.Wait()
		err := t.abandon()
		t.running.Wait()
		if err = errors.Join(err, t.file.release()); err != nil {
			t.end = t.file.failure("close", err)
		}
	})
	return t.end
}

// within ends a call's context with Close too.
func (t *Target) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(t.ctx, func() { cancel(projector.ErrClosed) })
	return ctx, func() { unhook(); cancel(nil) }
}

// write runs work in a transaction on the live generation, and committed right
// after it.
func (t *Target) write(ctx context.Context, doing string, work func(context.Context, *file, *session) error, committed func()) error {
	if err := t.begin(); err != nil {
		return err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	err := t.onLive(ctx, func(g *file, s *session) error { return work(ctx, g, s) }, committed)
	if err != nil {
		return t.file.failure(doing, err)
	}
	return nil
}

// Read runs queries on the model, all as of one moment: one between two batches
// of this projector and of any other, in the generation that is live then. A write is [ErrForbidden]. Read's errors
// are those of queries, as they are returned by its function.
//
// The moment lasts until the function returns, so a long one keeps the file
// from shrinking. Do not call Read inside it: those who wait for each other's
// connections wait until ctx ends.
func (t *Target) Read(ctx context.Context, queries func(*Tx) error) error {
	if err := t.begin(); err != nil {
		return err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	var result error
	err := t.file.follow(ctx, nil, func(g *file) error {
		s, err := g.reader(ctx)
		if err != nil {
			return err
		}
		defer g.readAgain(s)
		x := newTx(ctx, s, readers)
		defer x.end()
		result = queries(x)
		return nil
	})
	if err != nil {
		return t.file.failure("read", err)
	}
	return result
}

// reader takes a connection and fixes the moment that it shows.
func (f *file) reader(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s, err := f.readers.Take(ctx)
	if err != nil {
		return nil, err
	}
	// Only a recovery after a crash locks readers out.
	err = sqlitedb.Retry(ctx, f.lockWait, func() error {
		if s.conn.AutocommitEnabled() {
			if err := s.do("BEGIN"); err != nil {
				return err
			}
		}
		version, err := sqlitedb.SchemaVersion(s.conn)
		if err == nil && version != f.schema {
			err = fmt.Errorf("%w: update this program", ErrNewerSchema)
		}
		if err == nil {
			err = f.current(s)
		}
		return err
	})
	if err != nil {
		f.readers.Drop(s)
		return nil, err
	}
	return s, nil
}

func (f *file) readAgain(s *session) {
	if sqlitedb.Rollback(s.conn) != nil {
		f.readers.Drop(s)
		return
	}
	f.readers.Put(s)
}

// State implements [projector.Target].
func (t *Target) State(ctx context.Context, name projector.Name) (projector.State, error) {
	if err := t.begin(); err != nil {
		return projector.State{}, err
	}
	defer t.calls.Done()
	return t.state(ctx, name)
}

func (t *Target) state(ctx context.Context, name projector.Name) (projector.State, error) {
	k, err := t.kept(ctx, name)
	var held bool
	if err == nil {
		held, err = t.live(k, signAge)
	}
	if err != nil {
		return projector.State{}, t.file.failure("state of "+name.String(), err)
	}
	return k.state(held), nil
}
