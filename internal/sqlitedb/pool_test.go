package sqlitedb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// thing stands for a connection.
type thing struct{ open *atomic.Int64 }

func (c thing) Close() error { c.open.Add(-1); return nil }

func newThings(size int) (*Pool[thing], *atomic.Int64) {
	var open atomic.Int64
	return NewPool(size, func() (thing, error) {
		open.Add(1)
		return thing{&open}, nil
	}), &open
}

func TestPoolIsBounded(t *testing.T) {
	p, open := newThings(3)
	var out, most atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 50 {
				c, err := p.Take(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				n := out.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				out.Add(-1)
				p.Put(c)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.LessOrEqual(t, open.Load(), int64(3))
	require.NoError(t, p.Close())
	require.Zero(t, open.Load())
}

func TestPoolTakeEnds(t *testing.T) {
	p, open := newThings(1)
	c, err := p.Take(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why not")
	cancel(why)
	_, err = p.Take(ctx)
	require.ErrorIs(t, err, why)

	waits := make(chan error)
	go func() {
		_, err := p.Take(context.Background())
		waits <- err
	}()
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	require.ErrorIs(t, <-waits, ErrPoolClosed)
	p.Put(c) // Close waits for it
	require.NoError(t, <-closed)
	require.Zero(t, open.Load())
	_, err = p.Take(t.Context())
	require.ErrorIs(t, err, ErrPoolClosed)
}

func TestPoolAfterErrors(t *testing.T) {
	fails := errors.New("no file")
	broken := true
	p := NewPool(1, func() (thing, error) {
		if broken {
			return thing{}, fails
		}
		return thing{new(atomic.Int64)}, nil
	})
	for range 3 { // the place of one that could not be opened is free again
		_, err := p.Take(t.Context())
		require.ErrorIs(t, err, fails)
	}
	broken = false
	c, err := p.Take(t.Context())
	require.NoError(t, err)
	p.Drop(c)
	_, err = p.Take(t.Context())
	require.NoError(t, err)
}

func TestPoolPause(t *testing.T) {
	p, _ := newThings(2)
	c, err := p.Take(t.Context())
	require.NoError(t, err)
	require.Nil(t, p.Pause(time.Millisecond), "one is out")
	p.Put(c)
	resume := p.Pause(time.Minute)
	require.NotNil(t, resume)
	taken := make(chan error)
	go func() {
		_, err := p.Take(context.Background())
		taken <- err
	}()
	select {
	case <-taken:
		t.Fatal("a pause lets nobody in")
	case <-time.After(5 * time.Millisecond):
	}
	resume()
	require.NoError(t, <-taken)
}

func TestWALKeeper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	conn := open(t, path, Options{Create: true})
	require.NoError(t, Exec(conn, "PRAGMA wal_autocheckpoint=0"))
	require.NoError(t, Exec(conn, "CREATE TABLE t (x)"))
	require.NoError(t, Exec(conn, "INSERT INTO t VALUES (zeroblob(100000))"))
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	p, _ := newThings(1)
	k := NewWALKeeper(path)
	require.NoError(t, k.Keep(conn, p.Pause))
	require.Greater(t, size(), int64(100_000), "it is below the limit")
	k.Limit = 50_000

	// A reader of another process is in the way: that is no error.
	reader := open(t, path, Options{QueryOnly: true})
	require.NoError(t, Exec(reader, "BEGIN"))
	require.NoError(t, Exec(reader, "SELECT count(*) FROM t"))
	require.NoError(t, k.Keep(conn, p.Pause))
	require.Greater(t, size(), int64(100_000))

	require.NoError(t, Exec(reader, "COMMIT"))
	k.next = time.Time{}
	require.NoError(t, k.Keep(conn, p.Pause))
	require.Zero(t, size())
}

func TestVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	a, b := open(t, path, Options{Create: true}), open(t, path, Options{})
	require.NoError(t, Exec(a, "CREATE TABLE t (x)"))
	version := func() int64 {
		v, err := DataVersion(b)
		require.NoError(t, err)
		return v
	}
	before := version()
	require.Equal(t, before, version())
	require.NoError(t, Exec(a, "INSERT INTO t VALUES (1)"))
	require.NotEqual(t, before, version(), "another connection has written")
	require.NoError(t, Exec(a, "PRAGMA user_version=7"))
	v, err := SchemaVersion(b)
	require.NoError(t, err)
	require.EqualValues(t, 7, v)
}
