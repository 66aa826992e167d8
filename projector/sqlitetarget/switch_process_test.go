package sqlitetarget

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/stretchr/testify/require"
)

// A process is killed at each moment of a switch, from the base and from another
// generation: the model is one of the two, whole, a worker goes on with it, and
// a new one can be built.
func TestKilledInsideASwitch(t *testing.T) {
	for _, from := range []string{"base", "generation"} {
		for _, moment := range []string{"locked", "ready", "raised", "moving", "moved"} {
			t.Run(from+"/"+moment, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "model.db")
				here := open(t, path, time.Hour)
				want := "1"
				if from == "generation" {
					switched(t, here, "before")
					require.NoError(t, handler5(t, here, "1"))
				} else {
					worker(t, here)
				}
				epoch := stateOf(t, here).Epoch
				p := start(t, path, time.Hour)
				p.hears("open ok")
				p.does("next tag")
				p.say("switch " + moment)
				p.hears("at " + moment)
				if moment != "moved" {
					require.Equal(t, "1", read(t, here, "sum"), "readers go on")
				}
				p.kill()

				moved := moment == "moved"
				if moved {
					want = "new"
				}
				require.Equal(t, want, read(t, here, "sum"))
				require.Equal(t, want, read(t, open(t, path, 0), "sum"))
				claim := worker(t, here)
				require.Greater(t, claim.Epoch, epoch)

				g := next(t, here, "tag")
				if s := stateOf(t, g.Target); moved {
					require.Equal(t, projector.State{}, s, "a new one")
				} else {
					require.Equal(t, at(5), s.Checkpoint, "the half-built one is found again")
				}
				require.NoError(t, fill(t.Context(), g))
				require.NoError(t, g.Switch(t.Context(), always))
				require.Equal(t, "new", read(t, here, "sum"))
				require.Greater(t, worker(t, here).Epoch, claim.Epoch)
				n, err := here.Drop(t.Context())
				require.NoError(t, err)
				require.Positive(t, n)
				require.Len(t, generations(t, path), 1)
			})
		}
	}
}

// handler5 sets the sum, and leaves the checkpoint of [fill].
func handler5(t *testing.T, target *Target, sum string) error {
	claim, err := target.Claim(t.Context(), testName)
	require.NoError(t, err)
	require.NoError(t, target.Apply(t.Context(), claim, at(5), put("sum", sum, at(5))))
	return target.Release(t.Context(), claim)
}

// Readers, workers and waiters of other processes follow a switch.
func TestProcessesFollowASwitch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.db")
	here := open(t, path, time.Hour)
	p := start(t, path, time.Hour)
	p.hears("open ok")
	builder := start(t, path, time.Hour)
	builder.hears("open ok")
	for _, tag := range []string{"a", "b", "c"} {
		p.does("claim")
		p.does("apply")
		sum := read(t, here, "sum")
		p.say("read sum")
		p.hears(sum)
		p.hears("read sum ok")

		before, err := here.State(t.Context(), testName)
		require.NoError(t, err)
		here.waitAtMost = time.Hour
		woken := make(chan error, 1)
		builder.does("next " + tag)
		go func() { woken <- here.Wait(t.Context(), testName, before) }()
		builder.does("switch never")
		require.NoError(t, <-woken)
		after := stateOf(t, here)
		require.Greater(t, after.Epoch, before.Epoch)
		require.False(t, after.Held)

		p.say("read sum")
		p.hears("new")
		p.hears("read sum ok")
		p.say("apply")
		p.hears("apply " + projector.ErrTakenOver.Error())
		require.Equal(t, "new", read(t, here, "sum"))
		// A commit of the new generation by another process wakes too.
		before, err = here.State(t.Context(), testName)
		require.NoError(t, err)
		go func() { woken <- here.Wait(t.Context(), testName, before) }()
		p.does("claim")
		require.NoError(t, <-woken)
		before, err = here.State(t.Context(), testName)
		require.NoError(t, err)
		go func() { woken <- here.Wait(t.Context(), testName, before) }()
		p.does("apply")
		require.NoError(t, <-woken)
		require.Equal(t, "1", read(t, here, "sum"))
		require.Equal(t, at(6), stateOf(t, here).Checkpoint)
		p.does("release")
		_, err = here.Drop(t.Context())
		require.NoError(t, err)
	}
}

// A batch that waits for the lock while the switch is under way finds the model
// gone on, and writes nothing; so does one that held the lock when the switch
// began: that one is committed before, or never.
func TestBatchAcrossASwitch(t *testing.T) {
	for _, from := range []string{"base", "generation"} {
		path := filepath.Join(t.TempDir(), "model.db")
		here := open(t, path, time.Hour)
		if from == "generation" {
			switched(t, here, "before")
			g := next(t, here, "zero")
			require.NoError(t, g.Switch(t.Context(), always))
		}
		p := start(t, path, time.Hour)
		p.hears("open ok")
		p.does("claim")
		g := next(t, here, "a")
		require.NoError(t, fill(t.Context(), g))

		p.say("hang") // inside a batch, with the lock
		p.hears("hang ok")
		live := here.file
		if live.following.file != nil {
			live = live.following.file
		}
		live.lockWait = 20 * time.Millisecond
		called := false
		ready := func() { called = true }
		err := g.Switch(t.Context(), func(context.Context) error { ready(); return nil })
		require.ErrorIs(t, err, ErrLocked)
		require.False(t, called)
		require.Empty(t, read(t, here, "half"))
		p.say("") // it goes on
		p.hears("hang ok")
		require.Equal(t, "done", read(t, here, "half"), "nothing has happened to its claim")
		live.lockWait = defaultLockWait

		require.NoError(t, g.Switch(t.Context(), func(context.Context) error {
			p.say("apply") // waits for the lock, or comes too late
			return nil
		}))
		p.hears("apply " + projector.ErrTakenOver.Error())
		require.Equal(t, "new", read(t, here, "sum"))
		require.Equal(t, at(5), stateOf(t, here).Checkpoint)
		require.Empty(t, read(t, here, "half"))
	}
}
