package sqlitetarget

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
)

//go:embed schema/*.sql
var scripts embed.FS

// applicationID is "CCC" and a number for this kind of file.
const applicationID = 0x43434302

func schema() sqlitedb.Schema {
	root, err := fs.Sub(scripts, "schema")
	if err != nil {
		panic(err) // the name is not a path: cannot be
	}
	return sqlitedb.Schema{AppID: applicationID, What: "a projector's read model, which needs a file of its own", Scripts: root}
}

const (
	// defaultLockWait is how long one call waits for writers of other processes.
	defaultLockWait = 5 * time.Second

	writerCacheKiB = 16 << 10
	readerCacheKiB = 4 << 10
	lookCacheKiB   = 256
)

// file is what the Targets of one file in this process share: one writer, the
// connections for reading, and who is told of commits.
type file struct {
	path string
	info os.FileInfo // which file it is, whatever path leads there
	refs int         // guarded by files.mu; of a base

	root      *file // nil: a base, which was given to Open
	number    int64 // of the generation in it
	pinned    bool  // it is open as one generation, whatever becomes of that
	following following

	lockWait time.Duration

	// turn holds a token for the writer. It is a channel and no mutex: those
	// who wait are served in their order, and can give up.
	turn   chan struct{}
	writer *session // nil after an error that left it unusable
	schema int64    // version of the file
	wal    *sqlitedb.WALKeeper

	readers *sqlitedb.Pool[*session] // for programs, as long as they like
	looks   *sqlitedb.Pool[*session] // for our own reads, which are short

	signs   signs
	waiters waiters
}

// files are the open ones of this process.
var files struct {
	mu   sync.Mutex
	open []*file
}

// acquire opens a file, or takes part in one that is open, and brings it to the
// program's schema.
func acquire(path string, scripts []string) (*file, error) {
	files.mu.Lock()
	defer files.mu.Unlock()
	f := findOpen(path)
	if f == nil {
		var err error
		if f, err = openFile(path, true); err != nil {
			return nil, err
		}
	}
	err := f.follow(context.Background(), nil, func(g *file) error { return g.runScripts(scripts) })
	if err != nil {
		if f.refs == 0 {
			err = errors.Join(err, f.close())
		}
		return nil, err
	}
	if f.refs == 0 {
		files.open = append(files.open, f)
	}
	f.refs++
	return f, nil
}

func findOpen(path string) *file {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	for _, f := range files.open {
		if os.SameFile(f.info, info) {
			return f
		}
	}
	return nil
}

func openFile(path string, create bool) (*file, error) {
	writer, err := openWriter(path, create)
	if err != nil {
		return nil, err
	}
	f := &file{number: baseNumber, writer: writer, turn: make(chan struct{}, 1), lockWait: defaultLockWait}
	f.turn <- struct{}{}
	// SQLite keeps its own files beside the real one, and so do we: other
	// processes may come by another link.
	if f.path, err = filepath.Abs(path); err == nil {
		if real, err := filepath.EvalSymlinks(f.path); err == nil {
			f.path = real
		}
		f.info, err = os.Stat(f.path)
	}
	if err == nil {
		f.schema, err = sqlitedb.SchemaVersion(writer.conn)
	}
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	f.wal = sqlitedb.NewWALKeeper(f.path)
	reader := func(cacheKiB int) func() (*session, error) {
		return func() (*session, error) {
			return f.connect(sqlitedb.Options{QueryOnly: true, CacheKiB: cacheKiB})
		}
	}
	f.readers = sqlitedb.NewPool(min(8, max(4, runtime.GOMAXPROCS(0))), reader(readerCacheKiB))
	f.looks = sqlitedb.NewPool(2, reader(lookCacheKiB))
	f.waiters.init(f, reader(lookCacheKiB))
	return f, nil
}

func openWriter(path string, create bool) (*session, error) {
	s, err := openSession(path, sqlitedb.Options{Create: create, CacheKiB: writerCacheKiB})
	if err != nil {
		return nil, err
	}
	if err := sqlitedb.Migrate(context.Background(), s.conn, path, schema()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// A file that cannot be written is noticed here, not at the first batch.
	err = sqlitedb.Begin(context.Background(), s.conn, 0)
	if errors.Is(err, ErrLocked) {
		err = nil // somebody else can write
	}
	if err = errors.Join(err, sqlitedb.Rollback(s.conn)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, sqlitedb.Classify(err)), s.Close())
	}
	return s, nil
}

// connect opens another connection to the file that this one is.
func (f *file) connect(o sqlitedb.Options) (*session, error) {
	s, err := openSession(f.path, o)
	if err != nil {
		return nil, &connectError{err}
	}
	if err := f.same(); err != nil {
		return nil, errors.Join(&connectError{err}, s.Close())
	}
	return s, nil
}

func (f *file) same() error {
	if info, err := os.Stat(f.path); err != nil || !os.SameFile(info, f.info) {
		return ErrReplaced
	}
	return nil
}

// release is called once by each Target. The last one closes the file, while
// nobody can open it.
func (f *file) release() error {
	if f.root != nil {
		return errors.Join(f.close(), f.root.release())
	}
	files.mu.Lock()
	defer files.mu.Unlock()
	if f.refs--; f.refs > 0 {
		return nil
	}
	files.open = slices.DeleteFunc(files.open, func(g *file) bool { return g == f })
	return f.close()
}

func (f *file) close() error {
	err := f.waiters.close()
	if f.following.file != nil {
		err = errors.Join(err, f.following.file.close())
	}
	err = errors.Join(err, f.readers.Close(), f.looks.Close())
	if f.writer != nil {
		err = errors.Join(err, f.writer.Close()) // last: it copies the write-ahead log into the file
	}
	return err
}

// write runs work in a transaction, and committed after it, before anybody else
// gets the writer. Work's error, its panic, and an end of ctx before the commit
// leave nothing behind.
func (f *file) write(ctx context.Context, work func(*session) error, committed func()) error {
	return f.locked(ctx, f.current, func(s *session) error {
		if err := work(s); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := sqlitedb.Commit(s.conn); err != nil {
			return err
		}
		committed()
		// An error here is not about what was written; the next try may work.
		_ = f.wal.Keep(s.conn, f.pause)
		return nil
	})
}

// locked runs work with the lock of the writer, in a transaction that is rolled
// back if work does not commit it. Before that may says whether it is to be.
func (f *file) locked(ctx context.Context, may, work func(*session) error) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-f.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { f.turn <- struct{}{} }()
	if f.writer == nil {
		if f.writer, err = openWriter(f.path, false); err != nil {
			return &connectError{err}
		}
	}
	defer f.rollback() // of what is not committed
	if err := sqlitedb.Begin(ctx, f.writer.conn, f.lockWait); err != nil {
		return err
	}
	if err := may(f.writer); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	return work(f.writer)
}

// check makes sure that the file is still what it was when it was opened.
func (f *file) check() error {
	// What is written to a file without a name is lost with the process.
	if err := f.same(); err != nil {
		return err
	}
	version, err := sqlitedb.SchemaVersion(f.writer.conn)
	if err == nil && version != f.schema {
		err = fmt.Errorf("%w: update this program", ErrNewerSchema)
	}
	return err
}

// rollback leaves the writer ready for the next transaction, if need be with
// another connection.
func (f *file) rollback() {
	if sqlitedb.Rollback(f.writer.conn) != nil {
		_ = f.writer.Close()
		f.writer = nil
	}
}

func (f *file) pause(limit time.Duration) (resume func()) {
	one := f.looks.Pause(limit)
	if one == nil {
		return nil
	}
	other := f.readers.Pause(limit)
	if other == nil {
		one()
		return nil
	}
	return func() { other(); one() }
}

// look reads on a connection of its own, never held up by a writer.
func (f *file) look(ctx context.Context, read func(*session) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s, err := f.looks.Take(ctx)
	if err != nil {
		return err
	}
	// Only a recovery after a crash locks readers out.
	err = sqlitedb.Retry(ctx, f.lockWait, func() error { return read(s) })
	if err != nil {
		f.looks.Drop(s)
		return err
	}
	f.looks.Put(s)
	return nil
}
