package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
)

// holdLock keeps the writer out, as another process would, until release.
func holdLock(t testing.TB, path string) (release func()) {
	t.Helper()
	conn, err := sqlitedb.Open(path, sqlitedb.Options{})
	require.NoError(t, err)
	require.NoError(t, sqlitedb.Begin(context.Background(), conn, time.Minute))
	var once sync.Once
	release = func() { once.Do(func() { _ = conn.Close() }) }
	t.Cleanup(release)
	return release
}

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatal("waited in vain until ", what)
		}
	}
}

func queued(s *Store) int {
	s.file.queue.mu.Lock()
	defer s.file.queue.mu.Unlock()
	return len(s.file.queue.items)
}

// together appends what is given as one group, in this order, and returns the
// errors.
func together(t testing.TB, s *Store, appends ...func() error) []error {
	t.Helper()
	release := holdLock(t, s.file.path)
	errs := make([]error, len(appends))
	var all sync.WaitGroup
	for i, f := range appends {
		all.Go(func() { errs[i] = f() })
		until(t, "the append waits", func() bool { return queued(s) == i+1 })
	}
	release()
	all.Wait()
	return errs
}

func appending(s *Store, seen []consistency.Observation, records ...event.Record) func() error {
	return func() error {
		_, err := s.Append(context.Background(), records, seen)
		return err
	}
}

// patient is for tests that hold the lock as long as they need.
var patient = Config{LockWait: time.Minute}

func TestGroupIsOneCommit(t *testing.T) {
	s := openWith(t, tempDB(t), patient)
	save(t, s, nil, fact("a", "0"))
	before := disk.walSyncs.Load()
	errs := together(t, s,
		appending(s, unseen("k", "1"), fact("k", "1")), appending(s, unseen("k", "2"), fact("k", "2")),
		appending(s, unseen("k", "1"), fact("k", "1")), appending(s, unseen("k", "3"), fact("k", "3")))
	require.EqualValues(t, 1, disk.walSyncs.Load()-before)
	require.NoError(t, errors.Join(errs[0], errs[1], errs[3]))
	requireKind(t, eventstore.Conflict, errs[2])
	require.Equal(t, 4, count(t, s, consistency.All()))
}

// A group has bounds, and what is left goes along with the next one.
func TestGroupHasBounds(t *testing.T) {
	var q queue
	q.init()
	sizes := func() (out []int) {
		for _, p := range q.take(nil) {
			out = append(out, p.size)
		}
		return out
	}
	for _, size := range []int{groupBytes / 2, groupBytes / 2, 1, groupBytes + 1, 2, 3} {
		q.put(&pending{size: size})
	}
	require.Equal(t, []int{groupBytes / 2, groupBytes / 2}, sizes())
	require.Equal(t, []int{1}, sizes())
	require.Equal(t, []int{groupBytes + 1}, sizes(), "alone, but not for ever in the queue")
	require.Equal(t, []int{2, 3}, sizes())
	require.Empty(t, sizes())
	for range groupAppends + 1 {
		q.put(&pending{})
	}
	require.Len(t, sizes(), groupAppends)
	require.Len(t, sizes(), 1)
}

// The second append breaks its observation because of the first, whose commit
// fails: it must not hear of a conflict with what may not be there.
func TestNoConflictWithWhatIsNotCommitted(t *testing.T) {
	s := openWith(t, tempDB(t), patient)
	save(t, s, nil, fact("a", "0"))
	onDisk(t, func(c diskCall) int32 {
		if c.op == "sync" && c.onWAL() {
			return lib.SQLITE_IOERR_FSYNC
		}
		return 0
	})
	errs := together(t, s, appending(s, unseen("k", "1"), fact("k", "1")), appending(s, unseen("k", "1"), fact("k", "1")))
	requireKind(t, eventstore.Ambiguous, errs[0])
	requireKind(t, eventstore.Ambiguous, errs[1])
	require.Equal(t, sqlite.ResultIOErrFsync, sqlite.ErrCode(errs[0]))

	onDisk(t, nil)
	save(t, s, unseen("k", "1"), fact("k", "1"))
	require.Equal(t, 2, count(t, s, consistency.All()))
	requireSound(t, s)
}

// What is called ambiguous is: a crash right after a failed sync can show the
// append. What is called not applied is not: after a write that was cut short,
// wherever in the commit, no crash can.
func TestKindsAreTrueAfterACrash(t *testing.T) {
	crash := func(t *testing.T, s *Store, number int, rc int32, at func(diskCall) bool) (err error, stored, writes int) {
		copied := filepath.Join(t.TempDir(), "copy.db")
		taken := false
		onDisk(t, func(c diskCall) int32 {
			if taken || !at(c) {
				return 0
			}
			writes++
			if writes != number {
				return 0
			}
			taken = true
			return rc
		})
		_, err = s.Append(context.Background(), facts(20, "k", strings.Repeat("x", 200)), nil)
		onDisk(t, nil)
		if taken {
			copyIn := exec.Command(testBinary, s.file.path, copied)
			copyIn.Env = append(copyIn.Environ(), jobEnv+"=copy")
			require.NoError(t, copyIn.Run())
			other := open(t, copied)
			stored = count(t, other, consistency.All())
			require.NoError(t, other.Close())
		}
		return err, stored, writes
	}
	t.Run("failed sync", func(t *testing.T) {
		err, stored, _ := crash(t, open(t, tempDB(t)), 1, lib.SQLITE_IOERR_FSYNC,
			func(c diskCall) bool { return c.op == "sync" && c.onWAL() })
		requireKind(t, eventstore.Ambiguous, err)
		require.Equal(t, 20, stored)
	})
	t.Run("cut writes", func(t *testing.T) {
		step := 1
		if testing.Short() {
			step = 5
		}
		for number := 1; ; number += step {
			s := open(t, tempDB(t))
			err, stored, writes := crash(t, s, number, shortWrite,
				func(c diskCall) bool { return c.op == "write" && c.onWAL() })
			require.NoError(t, s.Close())
			if writes < number {
				require.NoError(t, err)
				require.Greater(t, number, 10, "writes of a commit that were cut")
				return
			}
			requireKind(t, eventstore.NotApplied, err)
			require.ErrorIs(t, err, ErrDiskFull)
			require.Zero(t, stored)
		}
	})
}

// The disk is full for a big append, and has room for its neighbours.
func TestFullDiskFailsNoNeighbour(t *testing.T) {
	s := openWith(t, tempDB(t), patient)
	save(t, s, nil, fact("a", "0"))
	onDisk(t, func(c diskCall) int32 {
		if c.op == "write" && c.onWAL() && c.at > 400<<10 {
			return lib.SQLITE_FULL
		}
		return 0
	})
	big := facts(1, "big", strings.Repeat("x", 800<<10))
	errs := together(t, s, appending(s, nil, fact("k", "1")), appending(s, unseen("k", "1"), fact("k", "0")),
		appending(s, nil, big...), appending(s, nil, fact("k", "2")))
	require.NoError(t, errors.Join(errs[0], errs[3]))
	requireKind(t, eventstore.Conflict, errs[1])
	requireKind(t, eventstore.NotApplied, errs[2])
	require.ErrorIs(t, errs[2], ErrDiskFull)
	require.ErrorContains(t, errs[2], "free some space")
	require.Equal(t, 3, count(t, s, consistency.All()))

	onDisk(t, nil)
	save(t, s, nil, big...)
	requireSound(t, s)
}

// The same where a statement runs out of room, before the commit.
func TestFullFileFailsNoNeighbour(t *testing.T) {
	s := openWith(t, tempDB(t), patient)
	// The writer has not begun to use it.
	require.NoError(t, sqlitedb.Exec(s.file.writer.conn, "PRAGMA max_page_count=60"))
	save(t, s, nil, fact("a", "0"))
	big := strings.Repeat("x", 800<<10)
	errs := together(t, s, appending(s, nil, fact("k", "1")), appending(s, nil, fact("big", big)), appending(s, nil, fact("k", "2")))
	require.NoError(t, errors.Join(errs[0], errs[2]))
	requireKind(t, eventstore.NotApplied, errs[1])
	require.ErrorIs(t, errs[1], ErrDiskFull)
	require.Equal(t, 3, count(t, s, consistency.All()))
	requireSound(t, s)
}

func TestLockedFile(t *testing.T) {
	path := tempDB(t)
	s := openWith(t, path, Config{LockWait: 10 * time.Millisecond})
	release := holdLock(t, path)
	_, err := s.Append(t.Context(), facts(1), nil)
	requireKind(t, eventstore.NotApplied, err)
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, path)
	require.Zero(t, count(t, s, consistency.All()), "reads go on")
	release()
	save(t, s, nil, fact())
}

func TestUnwritableFile(t *testing.T) {
	s := open(t, tempDB(t))
	require.NoError(t, sqlitedb.Exec(s.file.writer.conn, "PRAGMA query_only=ON"))
	_, err := s.Append(t.Context(), facts(1), nil)
	requireKind(t, eventstore.Permanent, err)
	require.ErrorIs(t, err, ErrReadOnly)
	require.Zero(t, count(t, s, consistency.All()))
}

// A connection that an error left unusable is replaced.
func TestWriterIsReplaced(t *testing.T) {
	path := tempDB(t)
	first := open(t, path)
	at := save(t, first, nil, fact("k", "1"))[0]
	require.NoError(t, first.Close())
	s := open(t, path)
	require.NoError(t, s.file.writer.Close())
	s.file.writer = nil
	onDisk(t, func(c diskCall) int32 {
		if c.op == "open" {
			return lib.SQLITE_CANTOPEN
		}
		return 0
	})
	_, err := s.Append(t.Context(), facts(1), nil)
	requireKind(t, eventstore.NotApplied, err)
	onDisk(t, nil)
	save(t, s, []consistency.Observation{{Query: consistency.Where("k", "1"), At: at}}, fact("k", "2"))
	require.Equal(t, 2, count(t, s, consistency.All()))
}

// Many writers on a disk that fails at random: what was answered as saved is
// there, what was answered as not applied or as a conflict is not, now and when
// the file is opened again.
func TestRandomFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0)) // used by the writer alone
	path := tempDB(t)
	s := open(t, path)
	codes := []int32{lib.SQLITE_FULL, shortWrite, lib.SQLITE_IOERR_WRITE, lib.SQLITE_IOERR_FSYNC}
	onDisk(t, func(c diskCall) int32 {
		if !c.onWAL() || c.op == "open" || rng.IntN(40) != 0 {
			return 0
		}
		if c.op == "sync" {
			return lib.SQLITE_IOERR_FSYNC
		}
		return codes[rng.IntN(len(codes))]
	})
	appends := 2000
	if testing.Short() {
		appends = 400
	}
	const writers = 16
	var mu sync.Mutex
	answers := map[string]eventstore.Kind{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range appends / writers {
				name := fmt.Sprint(w, "-", i)
				shared := fmt.Sprint(w/2, "-", i) // with one other
				_, err := s.Append(context.Background(), facts(2, "name", name, "shared", shared), unseen("shared", shared))
				mu.Lock()
				answers[name] = eventstore.KindOf(err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	onDisk(t, nil)

	kinds := map[eventstore.Kind]int{}
	check := func(s *Store) {
		for name, kind := range answers {
			kinds[kind]++
			switch n := count(t, s, consistency.Where("name", name)); kind {
			case "":
				require.Equal(t, 2, n, "saved: %s", name)
			case eventstore.Ambiguous:
				require.Contains(t, []int{0, 2}, n, name)
			default:
				require.Zero(t, n, "%s: %s", kind, name)
			}
		}
		for w := range writers / 2 {
			for i := range appends / writers {
				require.LessOrEqual(t, count(t, s, consistency.Where("shared", fmt.Sprint(w, "-", i))), 2)
			}
		}
		save(t, s, nil, fact())
		requireSound(t, s)
	}
	check(s)
	require.NoError(t, s.Close())
	check(open(t, path))
	t.Log(kinds)
	require.NotZero(t, kinds[""])
	for _, kind := range []eventstore.Kind{eventstore.Conflict, eventstore.NotApplied, eventstore.Ambiguous} {
		require.True(t, testing.Short() || kinds[kind] > 0, "the faults are too rare, or too frequent")
	}
}
