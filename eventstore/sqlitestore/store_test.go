package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/storetest"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	installDisk()
	if job := os.Getenv(jobEnv); job != "" {
		os.Exit(runJob(job, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, storetest.Features{Durable: true, SecondHandle: true}, func(name string) (eventstore.Store, error) {
		return Open(filepath.Join(dir, name))
	})
}

// All logs are boundaries of one file.
func TestConformanceInOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.db")
	storetest.Run(t, storetest.Features{Durable: true, SecondHandle: true, Rounds: 5, Skip: large}, func(name string) (eventstore.Store, error) {
		return Config{Boundary: name}.Open(path)
	})
}

// Hashes are one of a few: what is found by a hash is another thing most of the
// time, and no answer may show it.
func TestConformanceWithCollisions(t *testing.T) {
	collide(t, 15)
	dir := t.TempDir()
	storetest.Run(t, storetest.Features{Durable: true, SecondHandle: true, Rounds: 2, Skip: large}, func(name string) (eventstore.Store, error) {
		return Open(filepath.Join(dir, name))
	})
}

// large are cases with thousands of events, which TestConformance runs.
var large = map[string]string{}

func init() {
	for _, name := range []string{"long_history", "many_values", "big_events", "limits_are_reached", "snapshot_bounds", "all_walks_over_pages"} {
		large[name] = "not of interest here, and slow"
	}
}

// collide leaves only these bits of each hash.
func collide(t *testing.T, mask uint64) {
	hashMask = mask
	t.Cleanup(func() { hashMask = ^uint64(0) })
}

// What follows is for all tests.

func tempDB(t testing.TB) string { return filepath.Join(t.TempDir(), "log.db") }

func open(t testing.TB, path string) *Store { return openWith(t, path, Config{}) }

func openWith(t testing.TB, path string, c Config) *Store {
	t.Helper()
	s, err := c.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// fact makes an event with these keys and values in its data.
func fact(keysAndValues ...string) event.Record {
	data := map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		data[keysAndValues[i]] = keysAndValues[i+1]
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return event.Record{ID: uuid.New(), Type: "Fact", Data: text}
}

func facts(n int, keysAndValues ...string) []event.Record {
	out := make([]event.Record, n)
	for i := range out {
		out[i] = fact(keysAndValues...)
	}
	return out
}

func save(t testing.TB, s *Store, seen []consistency.Observation, records ...event.Record) []consistency.Position {
	t.Helper()
	receipt, err := s.Append(context.Background(), records, seen)
	require.NoError(t, err)
	return receipt.Positions
}

func unseen(key, value string) []consistency.Observation {
	return []consistency.Observation{{Query: consistency.Where(key, value)}}
}

func count(t testing.TB, s *Store, q consistency.Query) int {
	t.Helper()
	results, err := s.Snapshot(context.Background(), eventstore.Part{Query: q})
	require.NoError(t, err)
	return len(results[0].Records)
}

func requireKind(t testing.TB, kind eventstore.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind, eventstore.KindOf(err), fmt.Sprint(err))
}

var testBinary = os.Args[0]
