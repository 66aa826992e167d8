package sqlitestore

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/stretchr/testify/require"
)

// Readers of which each ends only when the next one has begun, or after a while
// if that one has to wait, do not let the write-ahead log grow. SQLite alone
// starts it again only at a moment when nobody reads from it.
func TestWALStaysSmall(t *testing.T) {
	path := tempDB(t)
	s := open(t, path)
	s.file.wal.Limit = 2 << 20 // the writer has not begun to use it
	save(t, s, nil, fact())
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	var reader func(begun chan struct{})
	reader = func(begun chan struct{}) {
		err := s.read(context.Background(), func(c *session) error {
			err := c.read(1)
			next := make(chan struct{})
			close(begun)
			if err != nil || ctx.Err() != nil {
				return err
			}
			readers.Go(func() { reader(next) })
			select {
			case <-next:
			case <-time.After(5 * time.Millisecond):
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	readers.Go(func() { reader(make(chan struct{})) })
	big := strings.Repeat("x", 1<<20-100)
	largest := int64(0)
	for range 20 {
		save(t, s, nil, fact("big", big))
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		largest = max(largest, info.Size())
	}
	cancel()
	readers.Wait()
	require.Less(t, largest, int64(6<<20), "20 MiB were written")
	require.Equal(t, 21, count(t, s, consistency.All()))
	requireSound(t, s)
}

// A read that lasts holds nobody up for long, and the log shrinks after it.
func TestWALWaitsForLongReads(t *testing.T) {
	path := tempDB(t)
	s := open(t, path)
	s.file.wal.Limit = 2 << 20
	save(t, s, nil, fact("k", "v"))
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- s.read(context.Background(), func(c *session) error {
			if err := c.read(1); err != nil {
				return err
			}
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	big := strings.Repeat("x", 1<<20-100)
	for range 5 {
		save(t, s, nil, fact("big", big))
	}
	require.Equal(t, 1, count(t, s, consistency.Where("k", "v")), "others read")
	close(end)
	require.NoError(t, <-ended)
	until(t, "the log is small again", func() bool {
		save(t, s, nil, fact())
		info, err := os.Stat(path + "-wal")
		return err == nil && info.Size() < 1<<20
	})
	_, err := s.Snapshot(t.Context(), eventstore.Part{Query: consistency.All()})
	require.NoError(t, err)
}
