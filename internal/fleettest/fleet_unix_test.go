//go:build unix

// Package fleettest has tests with real processes that share one read model.
package fleettest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/sqlitestore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/sqlitetarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

var (
	fleetTime = flag.Duration("fleet.time", 8*time.Second, "how long events are written while workers are killed and stopped")
	fleetSeed = flag.Uint64("fleet.seed", 0, "seed of what happens to which worker; 0: a new one")
)

const (
	dirEnv = "FLEETTEST_DIR"
	jobEnv = "FLEETTEST_JOB" // rebuild; else work
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirEnv); dir != "" {
		job := work
		if os.Getenv(jobEnv) == "rebuild" {
			job = rebuild
		}
		if err := job(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// Added is a number under a key.
type Added struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

func (Added) EventType() string { return "Added" }

var (
	codec     = event.NewCodec(event.Of[Added]())
	errPoison = errors.New("nobody can apply this one")
)

const (
	poison = "poison" // is the key whose first event no worker can apply
	schema = `CREATE TABLE numbers (key TEXT PRIMARY KEY, list TEXT NOT NULL)`
)

// open opens what a worker works on. The model's list of a key shows each event
// that is lost, doubled or out of order.
func open(dir string) (*sqlitestore.Store, *sqlitetarget.Target, *projector.Projector[*sqlitetarget.Tx], error) {
	store, err := sqlitestore.Open(filepath.Join(dir, "log.db"))
	if err != nil {
		return nil, nil, nil, err
	}
	model, err := sqlitetarget.Config{Lease: time.Second}.Open(filepath.Join(dir, "model.db"), schema)
	if err != nil {
		return nil, nil, nil, err
	}
	cfg := projector.Config{
		Name: "numbers", Events: codec, Keys: projector.DataKeys("key"), BatchSize: 20,
		Failures: projector.Policy{Attempts: 2, FirstDelay: time.Millisecond, Then: projector.Park},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1})),
	}
	return store, model, projector.New(store, model, cfg, func(_ context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
		e := d.Event.(Added)
		if err := tx.Exec(`INSERT INTO numbers VALUES (?1, ?2) ON CONFLICT DO UPDATE SET list = list || ?2`, e.Key, fmt.Sprint(",", e.N)); err != nil {
			return err
		}
		if e.Key == poison && e.N == 1 {
			return errPoison
		}
		return nil
	}), nil
}

// work is what a process of the fleet does until it is killed.
func work(dir string) error {
	_, _, p, err := open(dir)
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// rebuild makes the model anew by the same handler. What comes out must be equal.
func rebuild(dir string) error {
	_, model, p, err := open(dir)
	if err != nil {
		return err
	}
	_, err = projector.Rebuild(context.Background(), model, projector.RebuildConfig[*sqlitetarget.Tx]{}, p)
	if err == nil {
		_, err = model.Drop(context.Background())
	}
	if errors.Is(err, projector.ErrHeld) || errors.Is(err, sqlitetarget.ErrLocked) {
		return nil // a stopped worker stands in the way: another time
	}
	return err
}

func startWorker(t *testing.T, dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), dirEnv+"="+dir), env...)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	return cmd
}

// rebuilder starts rebuilds one after the other, and kills most of them.
type rebuilder struct {
	cmd           *exec.Cmd
	ended         chan error
	kill          time.Time
	killed, whole int
}

func (b *rebuilder) look(t *testing.T, dir string, r *rand.Rand) {
	if b.cmd == nil {
		b.cmd, b.ended = startWorker(t, dir, jobEnv+"=rebuild"), make(chan error, 1)
		b.kill = time.Now().Add(time.Duration(r.IntN(1500)) * time.Millisecond)
		if r.IntN(3) == 0 {
			b.kill = time.Now().Add(time.Hour)
		}
		go func() { b.ended <- b.cmd.Wait() }()
		return
	}
	select {
	case err := <-b.ended:
		require.NoError(t, err, "a rebuild")
		b.cmd = nil
		b.whole++
	default:
		if time.Now().After(b.kill) {
			_ = b.cmd.Process.Kill()
			<-b.ended
			b.cmd = nil
			b.killed++
		}
	}
}

func (b *rebuilder) end() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		<-b.ended
		b.cmd = nil
	}
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Three workers on one model: each second one of them is killed, or stopped and
// woken later, while events are written and the model is rebuilt again and again.
// The model is the fold of the log.
func TestFleet(t *testing.T) {
	seed := *fleetSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: run it again with -fleet.seed %d", seed, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	store, model, p, err := open(dir)
	require.NoError(t, err)
	defer store.Close()
	defer model.Close()

	fleet := make([]*exec.Cmd, 3)
	for i := range fleet {
		fleet[i] = startWorker(t, dir)
		defer func() { kill(fleet[i]) }()
	}
	want, counts := map[string]string{}, map[string]int{}
	var last consistency.Position
	stopped := map[int]bool{}
	kills, stops, events := 0, 0, 0
	var anew rebuilder
	defer anew.end()
	began := time.Now()
	for harm := began.Add(time.Second); time.Since(began) < *fleetTime; {
		last = write(t, store, r, want, counts)
		events++
		anew.look(t, dir, r)
		if time.Now().Before(harm) {
			continue
		}
		harm = harm.Add(time.Second)
		for i := range stopped { // woken a second later
			require.NoError(t, fleet[i].Process.Signal(syscall.SIGCONT))
			delete(stopped, i)
		}
		switch i := r.IntN(len(fleet)); r.IntN(2) {
		case 0:
			kill(fleet[i])
			fleet[i] = startWorker(t, dir)
			kills++
		case 1:
			require.NoError(t, fleet[i].Process.Signal(syscall.SIGSTOP))
			stopped[i] = true
			stops++
		}
	}
	for i := range stopped {
		require.NoError(t, fleet[i].Process.Signal(syscall.SIGCONT))
	}
	anew.end()
	t.Logf("%d events, %d kills, %d stops, %d rebuilds, %d killed", events, kills, stops, anew.whole, anew.killed)
	require.Positive(t, anew.whole+anew.killed)
	require.Positive(t, kills+stops)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.WaitFor(ctx, last)
	require.ErrorIs(t, err, projector.ErrParked, "the poison is parked, and the rest is done: %v", err)
	require.Equal(t, counts[poison], len(allParked(t, p)))
	delete(want, poison)
	require.Equal(t, want, lists(t, model))
}

func write(t *testing.T, store *sqlitestore.Store, r *rand.Rand, want map[string]string, counts map[string]int) consistency.Position {
	key := fmt.Sprint("k", r.IntN(10))
	if r.IntN(50) == 0 {
		key = poison
	}
	counts[key]++
	want[key] += fmt.Sprint(",", counts[key])
	data, err := json.Marshal(Added{key, counts[key]})
	require.NoError(t, err)
	receipt, err := store.Append(t.Context(), []event.Record{{ID: uuid.New(), Type: Added{}.EventType(), Data: data}}, nil)
	require.NoError(t, err)
	return receipt.Positions[0]
}

func allParked(t *testing.T, p *projector.Projector[*sqlitetarget.Tx]) (all []projector.Parked) {
	for q := (projector.ParkedQuery{}); ; q.After = all[len(all)-1].Record.Position {
		page, err := p.Parked(t.Context(), q)
		require.NoError(t, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

func lists(t *testing.T, model *sqlitetarget.Target) map[string]string {
	got := map[string]string{}
	require.NoError(t, model.Read(t.Context(), func(tx *sqlitetarget.Tx) error {
		for row, err := range tx.Query(`SELECT key, list FROM numbers`) {
			var key, list string
			if err == nil {
				err = row.Scan(&key, &list)
			}
			if err != nil {
				return err
			}
			got[key] = list
		}
		return nil
	}))
	return got
}
