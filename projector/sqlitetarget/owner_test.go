package sqlitetarget

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/stretchr/testify/require"
)

func until(t *testing.T, target *Target) int64 {
	t.Helper()
	var k kept
	require.NoError(t, target.file.look(t.Context(), func(s *session) (err error) {
		k, err = s.kept(testName)
		return err
	}))
	return k.until
}

// eventually waits for what a goroutine of the target does on its own.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	require.Eventually(t, done, 20*time.Second, 5*time.Millisecond, what)
}

// The heartbeat renews leases as long as there are claims, and is gone, lock and
// all, after the last one, long before Close.
func TestHeartbeatComesAndGoes(t *testing.T) {
	dir := t.TempDir()
	target := open(t, filepath.Join(dir, "model.db"), 150*time.Millisecond)
	otherName := projector.Name{Projector: "other", Boundary: "default"}
	for range 2 {
		requireNoLocks(t, dir)
		claim, err := target.Claim(t.Context(), testName)
		require.NoError(t, err)
		second, err := target.Claim(t.Context(), otherName)
		require.NoError(t, err)
		require.Equal(t, 1, countLocks(t, dir), "one for all claims")
		for range 2 {
			was := until(t, target)
			eventually(t, "a renewal", func() bool { return until(t, target) > was })
		}
		require.NoError(t, target.Release(t.Context(), second))
		was := until(t, target)
		eventually(t, "a renewal, with another claim released", func() bool { return until(t, target) > was })
		require.NoError(t, target.Release(t.Context(), claim))
		target.running.Wait()
	}
	requireNoLocks(t, dir)
}

// Close gives everything back, what was not released too.
func TestCloseReleases(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	here := open(t, path, time.Hour)
	target, err := Open(path, schemaKV)
	require.NoError(t, err)
	_, err = target.Claim(t.Context(), testName)
	require.NoError(t, err)
	s, err := here.State(t.Context(), testName)
	require.NoError(t, err)
	here.waitAtMost = time.Hour
	woken := make(chan error, 1)
	go func() { woken <- here.Wait(t.Context(), testName, s) }()
	require.NoError(t, target.Close())
	require.NoError(t, <-woken)
	requireNoLocks(t, dir)
	_, err = here.Claim(t.Context(), testName)
	require.NoError(t, err)
}

// Close ends what waits, and waits for handlers.
func TestCloseEndsCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	target, err := Config{Lease: time.Hour}.Open(path, schemaKV)
	require.NoError(t, err)
	target.waitAtMost = time.Hour
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	s, err := target.State(t.Context(), testName)
	require.NoError(t, err)
	ends := make(chan error, 4)
	in, out := make(chan struct{}), make(chan struct{})
	go func() { // in its handler
		ends <- target.Apply(context.Background(), claim, at(0), func(b projector.Batch[*Tx]) (projector.Checkpoint, error) {
			close(in)
			<-out
			return put("a", "1", at(1))(b)
		})
	}()
	<-in
	go func() { ends <- target.Apply(context.Background(), claim, at(0), put("a", "1", at(1))) }() // in line
	go func() { ends <- target.Wait(context.Background(), testName, s) }()
	reads, readOut := make(chan error, 1), make(chan struct{})
	inRead := make(chan struct{})
	go func() {
		reads <- target.Read(context.Background(), func(x *Tx) error {
			close(inRead)
			<-readOut
			_, _, err := get(x, "a")
			return err
		})
	}()
	<-inRead
	here := open(t, path, 0) // so that the file stays open
	closed := make(chan error, 1)
	go func() { closed <- target.Close() }()
	for range 2 {
		require.ErrorIs(t, <-ends, projector.ErrClosed)
	}
	stillOpen := func() {
		select {
		case <-closed:
			t.Error("Close did not wait")
		case <-time.After(20 * time.Millisecond):
		}
	}
	stillOpen()
	close(out)
	require.ErrorIs(t, <-ends, projector.ErrClosed)
	stillOpen()
	close(readOut)
	require.Error(t, <-reads)
	require.NoError(t, <-closed)
	require.Equal(t, projector.State{Epoch: 1}, stateOf(t, here))
}

// A worker that wakes up after its lease ran out stops renewing it, and its
// lock goes with its last claim.
func TestHeartbeatForgetsWhatIsLost(t *testing.T) {
	const short = 150 * time.Millisecond
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	here, frozen := open(t, path, time.Hour), open(t, path, short)
	old, err := frozen.Claim(t.Context(), testName)
	require.NoError(t, err)
	frozen.mu.Lock()
	o := frozen.owner
	l := o.held[testName]
	frozen.mu.Unlock()
	frozen.freeze(testName)
	claim, _ := takeOver(t, here)
	require.Equal(t, 2, countLocks(t, dir))
	was := until(t, here)

	frozen.mu.Lock()
	o.held[testName] = l // it wakes up
	frozen.mu.Unlock()
	frozen.running.Wait()
	require.Equal(t, 1, countLocks(t, dir))
	require.Equal(t, was, until(t, here), "the lease is another's")
	require.ErrorIs(t, frozen.Apply(t.Context(), old, at(0), put("a", "1", at(1))), projector.ErrTakenOver)
	require.NoError(t, here.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
}

// Batches renew leases that are due: a heartbeat that waits for busy writers
// must not lose them.
func TestBatchesRenew(t *testing.T) {
	target := open(t, filepath.Join(t.TempDir(), "model.db"), time.Hour)
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	was := until(t, target)
	require.NoError(t, target.Apply(t.Context(), claim, at(0), put("a", "1", at(1))))
	require.Equal(t, was, until(t, target), "not due yet")
	target.mu.Lock()
	target.owner.beat = time.Now().Add(-time.Hour / 2)
	target.mu.Unlock()
	require.NoError(t, target.Apply(t.Context(), claim, at(1), put("a", "1", at(2))))
	require.Greater(t, until(t, target), was)
	require.Less(t, time.Since(target.owner.beat), time.Minute)
}

// A claim that could not be given back in the file is free all the same, as its
// owner is gone.
func TestReleaseThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	a, b := open(t, path, time.Hour), open(t, path, time.Hour)
	claim, err := a.Claim(t.Context(), testName)
	require.NoError(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.Release(gone, claim), context.Canceled)
	requireNoLocks(t, dir)
	_, err = b.Claim(t.Context(), testName)
	require.NoError(t, err)
}

// Claims that fail leave no sign of life.
func TestClaimInVain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	a, b := open(t, path, time.Hour), open(t, path, time.Hour)
	_, err := a.Claim(t.Context(), testName)
	require.NoError(t, err)
	for range 3 {
		_, err = b.Claim(t.Context(), testName)
		require.ErrorIs(t, err, projector.ErrHeld)
	}
	require.Equal(t, 1, countLocks(t, dir))
}
