package sqlitestore

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// Config is how a file is opened. The zero Config is ready for production.
type Config struct {
	// Boundary is the log in the file. Empty means "default". Logs of one file
	// know nothing of each other, but share its writer: what waits for it, of
	// all of them, is committed together.
	Boundary string
	// LockWait is how long an append waits while another process writes, before
	// it is answered with [ErrLocked]. Zero means 5 s. Stores of one file in one
	// process share their writer, which has the LockWait of the first.
	LockWait time.Duration
}

const (
	defaultBoundary = "default"
	defaultLockWait = 5 * time.Second
)

// Store is one boundary of a file; use [Open]. It is safe for concurrent use.
type Store struct {
	file     *file
	boundary *boundary

	mu      sync.Mutex
	closed  bool
	closing chan struct{} // closed by Close
	calls   sync.WaitGroup
	once    sync.Once
	result  error // of Close
}

var _ eventstore.Store = (*Store)(nil)

// Open opens the log in a file, and makes both where they are missing. The
// directory must exist. Path is a plain path. The file, and the two that SQLite
// keeps beside it while it is open (-wal, -shm), must lie on a local disk.
//
// Errors say what to do; [ErrLocked], [ErrReadOnly], [ErrCorrupt], [ErrNoWAL],
// [ErrNewerSchema] and [ErrForeignFile] are in them where they apply.
func Open(path string) (*Store, error) { return Config{}.Open(path) }

// Open is [Open] with settings:
//
//	store, err := sqlitestore.Config{Boundary: "payroll"}.Open("company.db")
func (c Config) Open(path string) (*Store, error) {
	if c.Boundary == "" {
		c.Boundary = defaultBoundary
	}
	if c.LockWait == 0 {
		c.LockWait = defaultLockWait
	}
	if len(c.Boundary) > consistency.MaxValue || !utf8.ValidString(c.Boundary) {
		return nil, fmt.Errorf("sqlitestore: boundary %.80q: a name is up to %d bytes of UTF-8", c.Boundary, consistency.MaxValue)
	}
	f, b, err := acquire(path, c)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	return &Store{file: f, boundary: b, closing: make(chan struct{})}, nil
}

// Features implements [eventstore.Store].
func (s *Store) Features() eventstore.Features {
	return eventstore.Features{UniqueEventIDs: true, Log: s.boundary.log}
}

// begin counts a call, so that Close waits for it. Each has its calls.Done.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return eventstore.Closed()
	}
	s.calls.Add(1)
	return nil
}

// Close implements [eventstore.Store]. Appends that are being written get their
// answer; those that wait, and reads, end with [eventstore.ErrClosed]. The last
// Store of a file in this process closes the file.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.closing)
		s.file.dropQueued(s)
		s.calls.Wait()
		if err := s.file.release(); err != nil {
			s.result = fmt.Errorf("sqlitestore: close %s: %w", s.file.path, err)
		}
	})
	return s.result
}

// boundary is one log of a file.
type boundary struct {
	id   int64
	log  uuid.UUID
	all  query // meets every event
	name string

	// What follows is guarded by file.waiters.mu.
	head    int64         // no answer or look of this process told of a later one
	changed chan struct{} // closed when head rises, or for a hint
	hints   int           // how often the waiting were told to look for themselves
	waiting int
}
