//go:build unix

package sqlitetarget

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/stretchr/testify/require"
)

// A process that stands still holds its name for its lease, although its lock
// shows that it is there. When it wakes up it can write nothing more.
func TestFrozenOwner(t *testing.T) {
	const lease = time.Second
	dir := t.TempDir()
	path := filepath.Join(dir, "model.db")
	here := open(t, path, lease)
	p := start(t, path, lease)
	p.hears("open ok")
	p.does("claim")
	p.does("apply")

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	frozen := time.Now()
	_, err := here.Claim(t.Context(), testName)
	require.ErrorIs(t, err, projector.ErrHeld)
	claim, _ := takeOver(t, here)
	require.Less(t, time.Since(frozen), time.Minute)
	require.NoError(t, here.Apply(t.Context(), claim, at(1), addOne(at(1))))
	require.Equal(t, 2, countLocks(t, dir), "it is not dead, so its lock stays")

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	p.say("apply")
	p.hears("apply " + projector.ErrTakenOver.Error())
	p.say("claim")
	p.hears("claim " + projector.ErrHeld.Error())
	p.does("release")
	p.does("close")
	require.Equal(t, 1, countLocks(t, dir), "it has cleaned up")
	require.Equal(t, projector.State{Checkpoint: at(2), Epoch: 2, Held: true}, stateOf(t, here))
	require.Equal(t, "2", read(t, here, "sum"))
}

// A worker that stands still over a switch writes nothing when it wakes up.
func TestFrozenOverASwitch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	here := open(t, path, time.Hour)
	p := start(t, path, time.Hour)
	p.hears("open ok")
	p.does("claim")
	p.does("apply")
	for _, tag := range []string{"a", "b"} {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		switched(t, here, tag)
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		p.say("apply")
		p.hears("apply " + projector.ErrTakenOver.Error())
		require.Equal(t, "new", read(t, here, "sum"))
		require.Equal(t, at(5), stateOf(t, here).Checkpoint)
		n, err := here.Drop(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		p.does("claim")
		p.does("apply")
		require.Equal(t, "1", read(t, here, "sum"))
	}
}
