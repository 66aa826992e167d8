package sqlitestore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
)

var errEnough = errors.New("enough of it")

func TestAppendIsTakenBackWhileItWaits(t *testing.T) {
	path := tempDB(t)
	s := openWith(t, path, patient)
	release := holdLock(t, path)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Append(ctx, facts(1, "k", "gone"), nil)
		answer <- err
	}()
	until(t, "the append waits", func() bool { return queued(s) == 1 })
	cancel(errEnough)
	err := <-answer
	requireKind(t, eventstore.NotApplied, err)
	require.ErrorIs(t, err, errEnough)
	release()
	save(t, s, nil, fact("k", "here"))
	require.Equal(t, 1, count(t, s, consistency.All()))

	_, err = s.Append(ctx, facts(1), nil)
	requireKind(t, eventstore.NotApplied, err)
	require.Equal(t, 1, count(t, s, consistency.All()))
}

// stall stops the next commit in its sync. begun is closed when it stands there.
func stall(t *testing.T) (begun chan struct{}, goOn func()) {
	t.Helper()
	begun, goes := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	onDisk(t, func(c diskCall) int32 {
		if c.op == "sync" && c.onWAL() && once.CompareAndSwap(false, true) {
			close(begun)
			<-goes
		}
		return 0
	})
	return begun, func() { close(goes) }
}

func TestAppendIsAmbiguousOnceItIsBegun(t *testing.T) {
	s := open(t, tempDB(t))
	save(t, s, nil, fact())
	begun, goOn := stall(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Append(ctx, facts(1, "k", "late"), nil)
		answer <- err
	}()
	<-begun
	cancel(errEnough)
	err := <-answer // while the commit still stands
	requireKind(t, eventstore.Ambiguous, err)
	require.ErrorIs(t, err, errEnough)
	require.Zero(t, count(t, s, consistency.Where("k", "late")))
	goOn()
	save(t, s, nil, fact())
	require.Equal(t, 1, count(t, s, consistency.Where("k", "late")), "the writer went on")
}

// A caller who has left may do with its memory what it likes, while the writer
// has yet to read what was to be saved.
func TestAppendKeepsWhatItWasGiven(t *testing.T) {
	s := openWith(t, tempDB(t), patient)
	save(t, s, nil, fact())
	begun, goes := make(chan struct{}), make(chan struct{})
	commits := 0
	onDisk(t, func(c diskCall) int32 {
		if c.op != "sync" || !c.onWAL() {
			return 0
		}
		switch commits++; commits {
		case 1: // of both, which are then tried one by one
			return lib.SQLITE_FULL
		case 2: // of the first
			close(begun)
			<-goes
		}
		return 0
	})
	release := holdLock(t, s.file.path)
	first, second := make(chan error), make(chan error)
	go func() { first <- appending(s, nil, fact())() }()
	until(t, "it waits", func() bool { return queued(s) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		records := facts(1, "k", "kept")
		_, err := s.Append(ctx, records, nil)
		copy(records[0].Data, fact("k", "lost").Data)
		second <- err
	}()
	until(t, "both wait", func() bool { return queued(s) == 2 })
	release()
	<-begun
	cancel()
	requireKind(t, eventstore.Ambiguous, <-second)
	close(goes)
	require.NoError(t, <-first)
	save(t, s, nil, fact())
	require.Equal(t, 1, count(t, s, consistency.Where("k", "kept")))
	require.Zero(t, count(t, s, consistency.Where("k", "lost")))
	requireSound(t, s)
}

func TestCloseAnswersEverybody(t *testing.T) {
	path := tempDB(t)
	s, other := open(t, path), openWith(t, path, Config{Boundary: "other"}) // which keeps the file open
	last := save(t, s, nil, fact())[0]
	begun, goOn := stall(t)
	writing, waiting, hint := make(chan error), make(chan error), make(chan error)
	go func() { writing <- appending(s, nil, fact("k", "1"))() }()
	<-begun
	go func() { waiting <- appending(s, nil, fact("k", "2"))() }()
	go func() { hint <- s.Wait(t.Context(), position(place(last)+100)) }()
	until(t, "the append waits", func() bool { return queued(s) == 1 })
	until(t, "somebody waits", func() bool { return waitingFor(s) == 1 })

	closed := make(chan error)
	go func() { closed <- s.Close() }()
	require.ErrorIs(t, <-waiting, eventstore.ErrClosed)
	require.ErrorIs(t, <-hint, eventstore.ErrClosed)
	select {
	case err := <-closed:
		t.Fatal("closed while an append was being written: ", err)
	default:
	}
	goOn()
	require.NoError(t, <-writing)
	require.NoError(t, <-closed)
	require.NoError(t, s.Close(), "again")

	_, err := s.Append(t.Context(), facts(1), nil)
	require.ErrorIs(t, err, eventstore.ErrClosed)
	requireKind(t, eventstore.Permanent, err)
	_, err = s.Page(t.Context(), consistency.All(), last, 0)
	require.ErrorIs(t, err, eventstore.ErrClosed)
	save(t, other, nil, fact())
	require.Equal(t, 2, count(t, open(t, path), consistency.All()))
}

func waitingFor(s *Store) int {
	s.file.waiters.mu.Lock()
	defer s.file.waiters.mu.Unlock()
	return s.boundary.waiting
}

// mortal ends after it was asked a number of times whether it has.
type mortal struct {
	context.Context
	left atomic.Int64
}

func (m *mortal) Err() error {
	if m.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A read ends with its context, wherever it is, and never with a part of what
// was asked for.
func TestReadEndsWithItsContext(t *testing.T) {
	s := open(t, tempDB(t))
	save(t, s, nil, facts(300, "k", "v")...)
	ctx := &mortal{Context: context.Background()}
	ctx.left.Store(1 << 40)
	_, err := s.Snapshot(ctx, eventstore.Part{Query: consistency.Where("k", "v")})
	require.NoError(t, err)
	asked := 1<<40 - ctx.left.Load()
	require.Greater(t, asked, int64(300))
	for left := int64(1); left < asked-1; left += 7 {
		ctx.left.Store(left)
		results, err := s.Snapshot(ctx, eventstore.Part{Query: consistency.Where("k", "v")})
		require.ErrorIs(t, err, context.Canceled, left)
		requireKind(t, eventstore.NotApplied, err)
		require.Nil(t, results)
		ctx.left.Store(left)
		page, err := s.Page(ctx, consistency.Where("k", "v"), consistency.Position{}, 0)
		require.ErrorIs(t, err, context.Canceled, left)
		require.Empty(t, page.Records)
	}
	require.Equal(t, 300, count(t, s, consistency.All()), "the connections are as good as new")
}

// Reads that find no connection free wait for one, for as long as their context.
func TestReadWaitsForAConnection(t *testing.T) {
	s := open(t, tempDB(t))
	save(t, s, nil, fact())
	resume := s.file.readers.Pause(time.Minute)
	require.NotNil(t, resume)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := make(chan error)
	read := func(ctx context.Context) {
		_, err := s.Snapshot(ctx, eventstore.Part{Query: consistency.All()})
		answer <- err
	}
	go read(ctx)
	cancel(errEnough)
	require.ErrorIs(t, <-answer, errEnough)
	go read(t.Context())
	resume()
	require.NoError(t, <-answer)
}

// A long read does not hold up Close.
func TestCloseEndsReads(t *testing.T) {
	s := open(t, tempDB(t))
	save(t, s, nil, facts(10)...)
	begun, answer := make(chan struct{}), make(chan error)
	go func() {
		answer <- s.read(context.Background(), func(c *session) error {
			close(begun)
			for {
				if _, err := c.seek(nil, 0, 1, top, 1); err != nil {
					return err
				}
			}
		})
	}()
	<-begun
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-answer, eventstore.ErrClosed)
}
