package sqlitetarget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// moved is a number under one key, or under two.
type moved struct {
	Key string `json:"key"`
	To  string `json:"to,omitempty"`
	N   int    `json:"n"`
}

func (moved) EventType() string { return "Moved" }

func movedKeys(r event.Record) (keys []string) {
	for _, name := range []string{"key", "to"} {
		if v, ok := consistency.Value(r.Data, name); ok {
			keys = append(keys, string(v))
		}
	}
	return keys
}

// world is one history in real time, over one file.
type world struct {
	t      *testing.T
	seed   uint64
	path   string
	codec  *event.Codec
	store  eventstore.Store
	random *rand.Rand // of the one who writes

	mu     sync.Mutex
	sick   map[int]error // numbers that cannot be applied
	lost   map[int]bool  // those that never will be
	policy *rand.Rand
}

// life is a process that runs the projector.
type life struct {
	target *Target
	stop   context.CancelFunc
	ended  chan error
}

// Replicas on Targets of their own are stopped, frozen, and closed under their
// work while events are written, handlers fail, for a time or for good, and an
// operator retries, discards and resumes. At the end the model is the fold of the
// log without what was discarded, and at any time each key is in order.
func TestSimulation(t *testing.T) {
	count := 24
	if testing.Short() {
		count = 8
	}
	for i := range count {
		t.Run(fmt.Sprint("seed=", *seed+uint64(i)), func(t *testing.T) { simulate(t, *seed+uint64(i)) })
	}
}

func simulate(t *testing.T, seed uint64) {
	w := &world{
		t: t, seed: seed, path: filepath.Join(t.TempDir(), "model.db"), codec: event.NewCodec(event.Of[moved]()), store: memstore.New(),
		random: rand.New(rand.NewPCG(seed, 0)), policy: rand.New(rand.NewPCG(seed, 1)), sick: map[int]error{}, lost: map[int]bool{},
	}
	operator := open(t, w.path, 0)
	p := w.projector(operator)
	lives := make([]*life, 2+w.random.IntN(2))
	for i := range lives {
		lives[i] = w.live()
	}
	var keys [][]string // of each number
	var last consistency.Position
	for n := range 60 {
		e := moved{Key: fmt.Sprint("k", w.random.IntN(4)), N: n}
		keys = append(keys, []string{e.Key})
		if w.random.IntN(5) == 0 {
			e.To = fmt.Sprint("m", w.random.IntN(2))
			keys[n] = append(keys[n], e.To)
		}
		w.mu.Lock()
		switch w.random.IntN(12) {
		case 0:
			w.sick[n] = errors.New("for a time")
		case 1:
			w.sick[n], w.lost[n] = errors.New("for good"), true
		case 2:
			w.sick[n] = projector.ErrHold
		}
		w.mu.Unlock()
		data, version, err := w.codec.Encode(e, uuid.Nil)
		require.NoError(t, err)
		receipt, err := w.store.Append(t.Context(), []event.Record{{ID: uuid.New(), Type: e.EventType(), Data: data, Metadata: event.Metadata{Version: version}}}, nil)
		require.NoError(t, err)
		last = receipt.Positions[0]
		i := w.random.IntN(len(lives))
		switch w.random.IntN(10) {
		case 0:
			lives[i].stop()
			require.NoError(t, <-lives[i].ended)
			require.NoError(t, lives[i].target.Close())
			lives[i] = w.live()
		case 1: // under its work
			require.NoError(t, lives[i].target.Close())
			lives[i].stop()
			if err := <-lives[i].ended; err != nil {
				require.ErrorIs(t, err, projector.ErrClosed)
			}
			lives[i] = w.live()
		case 2:
			lives[i].target.freeze(testName)
		case 3:
			_, err := p.Retry(t.Context())
			require.NoError(t, err)
		case 4:
			require.NoError(t, p.Resume(t.Context()))
		case 5:
			w.heal()
		case 6: // until something is known
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := w.projector(lives[i].target).WaitFor(ctx, last)
			cancel()
			switch { // what is held goes on being tried until it is well
			case err == nil, errors.Is(err, projector.ErrParked), errors.Is(err, projector.ErrHalted), errors.Is(err, projector.ErrNotYet):
			default:
				require.NoError(t, err, "seed %d", seed)
			}
			w.ordered(operator)
		case 7:
			w.discard(p)
		}
	}
	w.settle(operator, p, last)
	for _, l := range lives {
		l.stop()
		require.NoError(t, <-l.ended)
		require.NoError(t, l.target.Close())
	}

	parked, err := p.Parked(t.Context(), projector.ParkedQuery{Settled: true, Limit: 1000})
	require.NoError(t, err)
	gone := map[int]bool{}
	for _, e := range parked {
		if e.Outcome == projector.Discarded {
			require.NotEmpty(t, e.Reason)
			require.True(t, w.lost[w.number(e.Record)])
			gone[w.number(e.Record)] = true
		}
	}
	require.Len(t, gone, len(w.lost))
	want := map[string]string{}
	for n, ks := range keys {
		for _, key := range ks {
			if !gone[n] {
				want[key] += "," + strconv.Itoa(n)
			}
		}
	}
	require.Equal(t, want, w.model(operator), "seed %d", seed)
	s, err := operator.State(t.Context(), testName)
	require.NoError(t, err)
	require.EqualValues(t, len(keys)-len(gone), s.Applied, "seed %d", seed)
	require.Zero(t, s.Parked)
	require.Zero(t, s.Failure)
	require.NoError(t, operator.Close())
	requireNoLocks(t, filepath.Dir(w.path))
}

func (w *world) projector(target *Target) *projector.Projector[*Tx] {
	w.mu.Lock()
	defer w.mu.Unlock()
	cfg := projector.Config{
		Name: testName.Projector, Events: w.codec, BatchSize: 1 + w.policy.IntN(10), Poll: 20 * time.Millisecond, Keys: projector.KeyFunc(movedKeys),
		Failures: projector.Policy{
			Then: projector.Park, Attempts: 1 + w.policy.IntN(3), MaxParked: 5 + w.policy.IntN(20),
			FirstDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, HaltRetry: 20 * time.Millisecond,
		},
	}
	if w.policy.IntN(4) == 0 {
		cfg.Failures.Then = projector.Halt
	}
	return projector.New(w.store, target, cfg, func(_ context.Context, x *Tx, d projector.Delivery) error {
		e := d.Event.(moved)
		w.mu.Lock()
		sick := w.sick[e.N]
		w.mu.Unlock()
		for _, key := range movedKeys(d.Record) {
			was, _, err := get(x, key)
			if err == nil {
				err = x.Exec(`INSERT INTO kv VALUES (?1, ?2) ON CONFLICT DO UPDATE SET v = ?2`, key, was+","+strconv.Itoa(e.N))
			}
			if err != nil || sick != nil {
				return errors.Join(err, sick)
			}
		}
		return nil
	})
}

func (w *world) live() *life {
	l := &life{target: open(w.t, w.path, shortLease), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	w.t.Cleanup(stop)
	l.stop = stop
	p := w.projector(l.target)
	go func() { l.ended <- p.Run(ctx) }()
	return l
}

// heal lets all be applied that ever will be.
func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.sick {
		if !w.lost[n] {
			delete(w.sick, n)
		}
	}
}

func (w *world) number(r event.Record) int {
	e, err := w.codec.Decode(r)
	require.NoError(w.t, err)
	return e.(moved).N
}

// discard discards what will never be applied, and is parked or stands in the
// way.
func (w *world) discard(p *projector.Projector[*Tx]) {
	parked, err := p.Parked(w.t.Context(), projector.ParkedQuery{})
	require.NoError(w.t, err)
	for _, e := range parked {
		if e.Failed && w.lost[w.number(e.Record)] {
			w.said(p.Discard(w.t.Context(), e.Record.Position, "for good"))
		}
	}
	lag, err := p.Lag(w.t.Context())
	require.NoError(w.t, err)
	if lag.Failure.Halted && strings.Contains(lag.Failure.Error, "for good") {
		w.said(p.Discard(w.t.Context(), lag.Failure.Position, "for good"))
	}
}

func (w *world) said(err error) {
	if !errors.Is(err, projector.ErrNotParked) { // it may be settled meanwhile
		require.NoError(w.t, err)
	}
}

// settle goes on until everything is applied or discarded.
func (w *world) settle(target *Target, p *projector.Projector[*Tx], at consistency.Position) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.heal()
	for {
		s, err := target.State(ctx, testName)
		require.NoError(w.t, err, "seed %d", w.seed)
		err = p.WaitFor(ctx, at)
		if err == nil {
			return
		}
		require.False(w.t, errors.Is(err, projector.ErrNotYet), "seed %d: %v", w.seed, err)
		w.discard(p)
		_, err = p.Retry(ctx)
		require.NoError(w.t, err)
		require.NoError(w.t, target.Wait(ctx, testName, s), "seed %d", w.seed)
	}
}

func (w *world) model(target *Target) map[string]string {
	m := map[string]string{}
	require.NoError(w.t, target.Read(w.t.Context(), func(x *Tx) error {
		for row, err := range x.Query(`SELECT k, v FROM kv`) {
			if err != nil {
				return err
			}
			var k, v string
			if err := row.Scan(&k, &v); err != nil {
				return err
			}
			m[k] = v
		}
		return nil
	}))
	return m
}

// ordered says whether each key is in order, and has nothing twice.
func (w *world) ordered(target *Target) {
	for key, v := range w.model(target) {
		before := -1
		for _, part := range strings.Split(v, ",")[1:] {
			n, err := strconv.Atoi(part)
			require.NoError(w.t, err)
			require.Greater(w.t, n, before, "seed %d: key %q is %q", w.seed, key, v)
			before = n
		}
	}
}
