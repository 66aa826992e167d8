package effecttarget_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/stretchr/testify/require"
)

// Every keeper is a counter that loses nothing: compare-and-swap, across Keepers
// of one directory too.
func TestKeepersCount(t *testing.T) {
	for kind, open := range map[string]func(*testing.T) func() effecttarget.Keeper{
		"memory": func(*testing.T) func() effecttarget.Keeper {
			k := effecttarget.Memory()
			return func() effecttarget.Keeper { return k }
		},
		"file": func(t *testing.T) func() effecttarget.Keeper {
			dir := filepath.Join(t.TempDir(), "is", "made")
			return func() effecttarget.Keeper { return effecttarget.File(dir) }
		},
		"table": func(t *testing.T) func() effecttarget.Keeper {
			path := filepath.Join(t.TempDir(), "own.db")
			return func() effecttarget.Keeper { return openTable(t, path) }
		},
	} {
		t.Run(kind, func(t *testing.T) {
			again := open(t)
			k := again()
			doc, version, now, err := k.Load(t.Context(), name)
			require.NoError(t, err)
			require.Nil(t, doc)
			require.Zero(t, version)
			require.WithinDuration(t, time.Now(), now, 2*time.Second)
			require.ErrorIs(t, k.Save(t.Context(), name, []byte("x"), 1), effecttarget.ErrChanged, "there is no version 1")
			const workers, each = 4, 10
			var all sync.WaitGroup
			for range workers {
				k := again()
				all.Go(func() {
					for done := 0; done < each; {
						doc, version, _, err := k.Load(t.Context(), name)
						n := 0
						_, _ = fmt.Sscan(string(doc), &n)
						if err == nil {
							err = k.Save(t.Context(), name, fmt.Append(nil, n+1, "\n\n"), version)
						}
						switch {
						case err == nil:
							done++
						case !strings.Contains(err.Error(), effecttarget.ErrChanged.Error()):
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			doc, version, _, err = again().Load(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(workers*each, "\n\n"), string(doc))
			require.EqualValues(t, workers*each, version)
			other := projector.Name{Projector: "Mails", Boundary: "default"}
			_, version, _, err = k.Load(t.Context(), other)
			require.NoError(t, err)
			require.Zero(t, version, "names that differ in case only are apart")
		})
	}
}

func TestFileLeavesOneFileAndItsLock(t *testing.T) {
	dir := t.TempDir()
	k := effecttarget.File(dir)
	for v := range int64(3) {
		require.NoError(t, k.Save(t.Context(), name, []byte("{}"), v))
		require.ErrorIs(t, k.Save(t.Context(), name, []byte("{}"), v), effecttarget.ErrChanged)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "%v", left)
	require.True(t, strings.HasPrefix(left[0].Name(), "mails-default-"))
	long := projector.Name{Projector: strings.Repeat("ä/", 100), Boundary: strings.Repeat("b", 200)}
	require.NoError(t, k.Save(t.Context(), long, []byte("{}"), 0))
}

func TestDamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, effecttarget.File(dir).Save(t.Context(), name, []byte("{}"), 0))
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	for text, want := range map[string]error{
		"":                          effecttarget.ErrCorrupt,
		"no version":                effecttarget.ErrCorrupt,
		"1\n{":                      effecttarget.ErrCorrupt,
		"1\n{}":                     effecttarget.ErrCorrupt,
		`1` + "\n" + `{"format":2}`: effecttarget.ErrNewer,
		`1` + "\n" + `{"format":1,"projector":"mails","boundary":"default","epoch":1,"held":false,"new":1}`: effecttarget.ErrCorrupt,
		`1` + "\n" + `{"format":1,"projector":"other","boundary":"default","epoch":1,"held":false}`:         effecttarget.ErrCorrupt,
	} {
		require.NoError(t, os.WriteFile(paths[0], []byte(text), 0o600))
		target := effecttarget.New(effecttarget.File(dir), effecttarget.Config{})
		_, err := target.Claim(t.Context(), name)
		require.ErrorIs(t, err, want, text)
		_, err = target.State(t.Context(), name)
		require.ErrorIs(t, err, want, text)
		require.NoError(t, target.Close())
		kept, err := os.ReadFile(paths[0])
		require.NoError(t, err)
		require.Equal(t, text, string(kept), "nothing is saved over it")
	}
}

// What processes that died left behind goes away after a while.
func TestFileSweeps(t *testing.T) {
	dir := t.TempDir()
	k := effecttarget.File(dir)
	require.NoError(t, k.Save(t.Context(), name, []byte("{}"), 0))
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	fresh, old := paths[0]+".1.tmp", paths[0]+".2.tmp"
	for _, p := range []string{fresh, old} {
		require.NoError(t, os.WriteFile(p, nil, 0o600))
	}
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour)))
	require.NoError(t, os.WriteFile(paths[0], []byte("1000\n{}"), 0o600))
	require.NoError(t, k.Save(t.Context(), name, []byte("{}"), 1000))
	require.FileExists(t, fresh)
	require.NoFileExists(t, old)
}
