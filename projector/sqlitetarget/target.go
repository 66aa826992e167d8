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
	file       *file
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
	f, err := acquire(path, scripts)
	if err != nil {
		return nil, fmt.Errorf("sqlitetarget: %w", err)
	}
	t := &Target{file: f, lease: defaultLease, waitAtMost: waitAtMost}
	if c.Lease > 0 {
		t.lease = max(c.Lease, shortLease)
	}
	t.ctx, t.stop = context.WithCancelCause(context.Background())
	return t, nil
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

// write runs work in a transaction, and committed right after it.
func (t *Target) write(ctx context.Context, doing string, work func(context.Context, *session) error, committed func()) error {
	if err := t.begin(); err != nil {
		return err
	}
	defer t.calls.Done()
	ctx, cancel := t.within(ctx)
	defer cancel()
	err := t.file.write(ctx, func(s *session) error { return work(ctx, s) }, committed)
	if err != nil {
		return t.file.failure(doing, err)
	}
	return nil
}

// Read runs queries on the model, all as of one moment: one between two batches
// of this projector and of any other. A write is [ErrForbidden]. Read's errors
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
	s, err := t.file.reader(ctx)
	if err != nil {
		return t.file.failure("read", err)
	}
	defer t.file.readAgain(s)
	x := newTx(ctx, s, readers)
	defer x.end()
	return queries(x)
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
	var k kept
	err := t.file.look(ctx, func(s *session) (err error) {
		k, err = s.kept(name)
		return err
	})
	var held bool
	if err == nil {
		held, err = t.live(k, signAge)
	}
	if err != nil {
		return projector.State{}, t.file.failure("state of "+name.String(), err)
	}
	return projector.State{Checkpoint: k.checkpoint, Failure: k.failure, Epoch: k.epoch, Held: held}, nil
}
