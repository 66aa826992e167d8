package sqlitedb

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLivenessIsOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	held, err := AcquireLiveness(path)
	require.NoError(t, err)
	require.Equal(t, []string{"lock"}, names(t, dir))
	require.NoError(t, RemoveDead(path))
	requireAlive(t, path, true)
	require.NoError(t, EndLiveness(held, path))
	require.Empty(t, names(t, dir))
	requireAlive(t, path, false)
}

func TestRemoveDead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	require.NoError(t, RemoveDead(path), "there is nothing")
	held, err := AcquireLiveness(path)
	require.NoError(t, err)
	require.NoError(t, held.Close())
	require.NoError(t, RemoveDead(path))
	require.Empty(t, names(t, dir))
}

// Whoever has the lock, and then finds the file, keeps it, whatever others who
// clean up do meanwhile.
func TestRemoveDeadNeverTakesALivingOne(t *testing.T) {
	dir := t.TempDir()
	kept := 0
	for i := range 100 {
		path := filepath.Join(dir, strconv.Itoa(i))
		stop := make(chan struct{})
		var sweepers sync.WaitGroup
		for range 2 {
			sweepers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := RemoveDead(path); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		held, err := AcquireLiveness(path)
		var there error
		if err == nil {
			if _, there = os.Stat(path); there == nil {
				kept++
				for range 20 {
					requireAlive(t, path, true)
				}
			}
		}
		close(stop)
		sweepers.Wait()
		require.NoError(t, err)
		if there != nil {
			require.ErrorIs(t, there, fs.ErrNotExist)
			require.NoError(t, held.Close())
			continue
		}
		require.NoError(t, EndLiveness(held, path))
	}
	require.Positive(t, kept)
	require.Empty(t, names(t, dir))
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
