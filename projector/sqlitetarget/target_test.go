package sqlitetarget

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/targettest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain lets a test start this binary again as another process.
func TestMain(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		os.Exit(process())
	}
	goleak.VerifyTestMain(m)
}

const schemaKV = `CREATE TABLE kv (k TEXT PRIMARY KEY, v TEXT NOT NULL) STRICT`

type target = projector.Target[*Tx]

// reader is what a Target and a generation have.
type reader interface {
	Read(context.Context, func(*Tx) error) error
}

// subject keeps each target in a file; opened once more it is another Target, on
// the same file and in the same process.
func subject(dir string, lease time.Duration) targettest.Subject[*Tx] {
	return targettest.Subject[*Tx]{
		Open: func(name string) (target, error) {
			return Config{Lease: lease}.Open(filepath.Join(dir, name+".db"), schemaKV)
		},
		Close: func(t target) error { return t.(*Target).Close() },
		Put: func(x *Tx, k, v string) error {
			return x.Exec(`INSERT INTO kv VALUES (?1, ?2) ON CONFLICT DO UPDATE SET v = ?2`, k, v)
		},
		Get: get,
		Read: func(t target, k string) (v string, found bool, err error) {
			err = t.(reader).Read(context.Background(), func(x *Tx) (err error) {
				v, found, err = get(x, k)
				return err
			})
			return v, found, err
		},
		Freeze: func(t target, n projector.Name) { t.(*Target).freeze(n) },
	}
}

func get(x *Tx, k string) (v string, found bool, err error) {
	row, found, err := x.First(`SELECT v FROM kv WHERE k = ?1`, k)
	if found {
		err = row.Scan(&v)
	}
	return v, found, err
}

// freeze keeps a lease from being renewed, as if this process stood still. Its
// lock stays.
func (t *Target) freeze(n projector.Name) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner != nil {
		delete(t.owner.held, n)
	}
}

func TestTarget(t *testing.T) {
	dir := t.TempDir()
	const lease = time.Second
	targettest.Run(t, targettest.Features{Durable: true, Shared: true, WriterBlocks: true, Lease: lease}, subject(dir, lease))
	requireNoLocks(t, dir)
}

// requireNoLocks checks that no lock file is left.
func requireNoLocks(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.Contains(e.Name(), ".db"+liveMark), "%s is left", e.Name())
	}
}
