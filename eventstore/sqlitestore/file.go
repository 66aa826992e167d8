package sqlitestore

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
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/google/uuid"
)

//go:embed schema/*.sql
var scripts embed.FS

// applicationID is "CCC" and a number for this kind of file.
const applicationID = 0x43434301

func schema() sqlitedb.Schema {
	root, err := fs.Sub(scripts, "schema")
	if err != nil {
		panic(err) // the name is not a path: cannot be
	}
	return sqlitedb.Schema{AppID: applicationID, What: "an event log of this package", Scripts: root}
}

// writerCacheKiB lets the inner pages of the indexes of large logs stay.
const writerCacheKiB = 32 << 10

// file is what the Stores of one file in this process share: one writer, the
// connections for reading, one watcher.
type file struct {
	path     string
	info     os.FileInfo // which file it is, whatever path leads there
	lockWait time.Duration
	refs     int // guarded by files.mu

	seeks   atomic.Int64
	readers *sqlitedb.Pool[*session]

	// The writer's goroutine has these to itself.
	writer *session // nil after an error that left it unusable
	schema int64    // version of the file
	wal    *sqlitedb.WALKeeper

	// The watcher's goroutine has this to itself; there is one at a time.
	watcher *session

	queue   queue
	waiters waiters
	running sync.WaitGroup     // writer and watcher
	ctx     context.Context    // ends when the file is to be closed
	stop    context.CancelFunc // ends ctx
}

// files are the open ones of this process. Two writers of one process on the
// same file would wait for each other's commits; one commits for both.
var files struct {
	mu   sync.Mutex
	open []*file
}

// acquire opens a file, or takes part in one that is open.
func acquire(path string, c Config) (*file, *boundary, error) {
	files.mu.Lock()
	defer files.mu.Unlock()
	f := findOpen(path)
	if f == nil {
		var err error
		if f, err = openFile(path, c); err != nil {
			return nil, nil, err
		}
	}
	b, err := f.boundary(c.Boundary)
	if err != nil {
		if f.refs == 0 {
			err = errors.Join(err, f.close())
		}
		return nil, nil, err
	}
	if f.refs == 0 {
		files.open = append(files.open, f)
	}
	f.refs++
	return f, b, nil
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

func openFile(path string, c Config) (_ *file, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f := &file{path: abs, lockWait: c.LockWait}
	if f.writer, err = f.openWriter(true); err != nil {
		return nil, err
	}
	if f.info, err = os.Stat(abs); err != nil {
		return nil, errors.Join(err, f.writer.Close())
	}
	f.wal = sqlitedb.NewWALKeeper(abs)
	f.readers = sqlitedb.NewPool(min(8, max(4, runtime.GOMAXPROCS(0))), func() (*session, error) {
		return f.openReader()
	})
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.queue.init()
	f.waiters.init()
	f.running.Go(f.write)
	return f, nil
}

func (f *file) openWriter(create bool) (*session, error) {
	s, err := openSession(f.path, sqlitedb.Options{Create: create, CacheKiB: writerCacheKiB}, &f.seeks)
	if err != nil {
		return nil, err
	}
	if err := sqlitedb.Migrate(context.Background(), s.conn, f.path, schema()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	err = s.prepare()
	if err == nil {
		f.schema, err = sqlitedb.SchemaVersion(s.conn)
	}
	if err == nil {
		err = tryToWrite(s, f.schema)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.path, sqlitedb.Classify(err)), s.Close())
	}
	return s, nil
}

// tryToWrite notices a file that cannot be written before the first append does.
// SQLite lets a transaction begin there; only a write fails.
func tryToWrite(s *session, version int64) error {
	err := sqlitedb.Begin(context.Background(), s.conn, 0)
	if errors.Is(err, ErrLocked) {
		return nil // somebody else can write
	}
	if err == nil {
		err = sqlitedb.Exec(s.conn, fmt.Sprintf("PRAGMA user_version=%d", version))
	}
	return errors.Join(err, sqlitedb.Rollback(s.conn))
}

func (f *file) openReader() (*session, error) {
	s, err := openSession(f.path, sqlitedb.Options{QueryOnly: true}, &f.seeks)
	if err != nil {
		return nil, err
	}
	err = s.prepare()
	if err == nil {
		err = f.unmoved()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// unmoved says whether the path still leads to the file that was opened. What
// is written to a file without a name is lost with the process, and what is
// read from another file in its place is another log.
func (f *file) unmoved() error {
	if info, err := os.Stat(f.path); err != nil || !os.SameFile(info, f.info) {
		return ErrReplaced
	}
	return nil
}

// release is called once by each Store. The last one closes the file, while
// nobody can open it.
func (f *file) release() error {
	files.mu.Lock()
	defer files.mu.Unlock()
	if f.refs--; f.refs > 0 {
		return nil
	}
	files.open = slices.DeleteFunc(files.open, func(g *file) bool { return g == f })
	return f.close()
}

func (f *file) close() error {
	f.stop()
	f.queue.wake()
	f.waiters.kickOff()
	f.running.Wait()
	err := f.readers.Close()
	if f.watcher != nil {
		err = errors.Join(err, f.watcher.Close())
	}
	if f.writer != nil {
		err = errors.Join(err, f.writer.Close()) // last: it copies the write-ahead log into the file
	}
	return err
}

// boundary finds a boundary's row, or makes it, on a connection of its own: the
// writer may be at work.
func (f *file) boundary(name string) (*boundary, error) {
	if b := f.waiters.known[name]; b != nil {
		return b, nil
	}
	s, err := openSession(f.path, sqlitedb.Options{}, &f.seeks)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	b := &boundary{name: name, changed: make(chan struct{})}
	err = s.prepare()
	if err == nil {
		err = sqlitedb.Retry(context.Background(), f.lockWait, func() error { return s.findBoundary(b) })
	}
	if err == nil && b.id == 0 {
		err = s.makeBoundary(b, f.lockWait)
	}
	if err == nil {
		b.all = compile(b.id, consistency.All())
		err = sqlitedb.Retry(context.Background(), f.lockWait, func() (err error) {
			b.head, _, err = s.head(b)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: boundary %q: %w", f.path, name, sqlitedb.Classify(err))
	}
	f.waiters.add(b)
	return b, nil
}

func (s *session) findBoundary(b *boundary) error {
	find, err := s.conn.Prepare(sqlBoundary)
	if err != nil {
		return err
	}
	find.BindText(1, b.name)
	found, err := find.Step()
	if err != nil || !found {
		return err
	}
	b.id = find.ColumnInt64(0)
	find.ColumnBytes(1, b.log[:])
	return find.Reset()
}

// makeBoundary gives the same row to all who make it at once.
func (s *session) makeBoundary(b *boundary, wait time.Duration) error {
	if err := sqlitedb.Begin(context.Background(), s.conn, wait); err != nil {
		return err
	}
	insert, err := s.conn.Prepare(sqlNewBoundary)
	if err == nil {
		log := uuid.New()
		insert.BindText(1, b.name)
		insert.BindBytes(2, log[:])
		_, err = insert.Step()
	}
	if err == nil {
		err = s.findBoundary(b)
	}
	if err == nil {
		err = sqlitedb.Commit(s.conn)
	}
	if err != nil {
		return errors.Join(err, sqlitedb.Rollback(s.conn))
	}
	return nil
}
