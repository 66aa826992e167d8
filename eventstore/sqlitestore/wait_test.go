package sqlitestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
)

// stranger opens a file as another process would: with a writer of its own, and
// nothing told from one to the other.
func stranger(t *testing.T, path string, c Config) *Store {
	t.Helper()
	if c.LockWait == 0 {
		c.LockWait = defaultLockWait
	}
	f, err := openFile(path, c)
	require.NoError(t, err)
	b, err := f.boundary(c.Boundary)
	require.NoError(t, err)
	f.refs = 1
	s := &Store{file: f, boundary: b, closing: make(chan struct{})}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestWaitSeesOtherProcesses(t *testing.T) {
	path := tempDB(t)
	s := openWith(t, path, Config{Boundary: "a"})
	other, third := stranger(t, path, Config{Boundary: "a"}), stranger(t, path, Config{Boundary: "b"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var last consistency.Position
	for range 20 {
		woken := make(chan error, 1)
		go func() { woken <- s.Wait(ctx, last) }()
		until(t, "somebody waits", func() bool { return waitingFor(s) == 1 })
		save(t, third, nil, fact()) // no event of this boundary
		written := save(t, other, nil, fact())[0]
		require.NoError(t, <-woken)
		page, err := s.Page(ctx, consistency.All(), last, 0)
		require.NoError(t, err)
		require.Len(t, page.Records, 1)
		require.Equal(t, written, page.UpTo)
		last = written
	}
	// What was written before the call counts too.
	last = save(t, other, nil, fact())[0]
	require.NoError(t, s.Wait(ctx, last.Prev()))
}

// Neither a commit to another boundary, in this process or in another, nor the
// watcher's looks wake anybody.
func TestWaitSleeps(t *testing.T) {
	path := tempDB(t)
	s, here := openWith(t, path, Config{Boundary: "a"}), openWith(t, path, Config{Boundary: "b"})
	there := stranger(t, path, Config{Boundary: "b"})
	last := save(t, s, nil, fact())[0]
	ctx, cancel := context.WithCancel(t.Context())
	woken := make(chan error, 1)
	go func() { woken <- s.Wait(ctx, last) }()
	until(t, "somebody waits", func() bool { return waitingFor(s) == 1 })
	for range 20 {
		save(t, here, nil, fact())
		written := save(t, there, nil, fact())[0]
		require.NoError(t, here.Wait(ctx, written.Prev()), "the watcher has looked")
	}
	select {
	case err := <-woken:
		t.Fatal("woken by others: ", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-woken, context.Canceled)
	until(t, "the watcher is gone", func() bool {
		s.file.waiters.mu.Lock()
		defer s.file.waiters.mu.Unlock()
		return !s.file.waiters.watching
	})
}

// Who waits for a far position sleeps through the events before it.
func TestWaitForAFarPosition(t *testing.T) {
	s := open(t, tempDB(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	woken := make(chan error, 1)
	go func() { woken <- s.Wait(ctx, position(10)) }()
	until(t, "somebody waits", func() bool { return waitingFor(s) == 1 })
	for range 10 {
		last := save(t, s, nil, fact())[0]
		require.NoError(t, s.Wait(ctx, last.Prev()))
	}
	require.Equal(t, 1, waitingFor(s))
	save(t, s, nil, fact())
	require.NoError(t, <-woken)
}

// A commit that the watcher saw while nobody waited for its boundary is not
// missed by who comes later.
func TestWaitComesLate(t *testing.T) {
	path := tempDB(t)
	a, b := openWith(t, path, Config{Boundary: "a"}), openWith(t, path, Config{Boundary: "b"})
	otherA, otherB := stranger(t, path, Config{Boundary: "a"}), stranger(t, path, Config{Boundary: "b"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	far := make(chan error, 1)
	go func() { far <- a.Wait(ctx, position(1000)) }() // keeps the watcher at work
	until(t, "somebody waits", func() bool { return waitingFor(a) == 1 })
	for range 20 {
		unseen := save(t, otherB, nil, fact())[0]
		seen := save(t, otherA, nil, fact())[0]
		require.NoError(t, a.Wait(ctx, seen.Prev()), "the watcher has looked since")
		require.NoError(t, b.Wait(ctx, unseen.Prev()))
	}
	cancel()
	require.Error(t, <-far)
}

func TestWaitByMany(t *testing.T) {
	s := open(t, tempDB(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const waiters = 100
	woken := make(chan error, waiters)
	for range waiters {
		go func() { woken <- s.Wait(ctx, consistency.Position{}) }()
	}
	until(t, "all wait", func() bool { return waitingFor(s) == waiters })
	save(t, s, nil, fact())
	for range waiters {
		require.NoError(t, <-woken)
	}
	require.Zero(t, waitingFor(s))
}

// A watcher that cannot look says so, in its way: look for yourselves.
func TestWaitDoesNotHideTrouble(t *testing.T) {
	s := open(t, tempDB(t))
	last := save(t, s, nil, fact())[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	onDisk(t, func(c diskCall) int32 {
		if c.op == "open" {
			return lib.SQLITE_CANTOPEN
		}
		return 0
	})
	require.NoError(t, s.Wait(ctx, last))
	_, err := s.Page(ctx, consistency.All(), last, 0)
	require.Error(t, err)
	require.False(t, errors.Is(err, context.DeadlineExceeded))
}
