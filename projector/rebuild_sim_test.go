package projector_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Histories in virtual time: live workers come, go and fail, with or without
// lanes; events are parked, retried and discarded; rebuilds are killed, lose
// answers, and switch. At the end the model is the fold of the log without what
// was discarded, and each event has had its effect before it was replayed.
func TestRebuildSimulation(t *testing.T) {
	first, count := uint64(1), *simCount
	if count == 0 {
		count = 400
		if testing.Short() {
			count = 100
		}
	}
	if *simSeed != 0 {
		first, count = *simSeed, 1
	}
	var total rebuildFaults
	next := make(chan uint64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range next {
				if t.Failed() {
					continue
				}
				ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
					bubble(t, func(t *testing.T) { simulateRebuild(t, seed, &total) })
				})
				if !ok {
					t.Errorf("run it again with -run TestRebuildSimulation -sim.seed=%d", seed)
				}
			}
		})
	}
	for seed := first; seed < first+uint64(count); seed++ {
		next <- seed
	}
	close(next)
	workers.Wait()
	t.Logf("%d histories: %s", count, &total)
	if count >= 100 {
		for name, n := range total.all() {
			require.NotZero(t, n.Load(), "no history had: %s", name)
		}
	}
}

// rebuildFaults counts what happened.
type rebuildFaults struct {
	switches, unclear, kills, resumed, replayed, lost, late, parked, discarded, held, waits atomic.Int64
}

func (f *rebuildFaults) all() map[string]*atomic.Int64 {
	return map[string]*atomic.Int64{
		"switches": &f.switches, "unclear switches": &f.unclear, "kills": &f.kills, "resumed rebuilds": &f.resumed,
		"replayed events": &f.replayed, "lost answers": &f.lost, "late commits": &f.late, "parked events": &f.parked,
		"discarded events": &f.discarded, "refused rebuilds": &f.held, "waits": &f.waits,
	}
}

func (f *rebuildFaults) String() string {
	var parts []string
	for name, n := range f.all() {
		parts = append(parts, fmt.Sprint(n.Load(), " ", name))
	}
	return strings.Join(parts, ", ")
}

// rebuildWorld is one simulated world.
type rebuildWorld struct {
	t      *testing.T
	faults *rebuildFaults
	log    *fakeLog
	m      model
	lanes  int
	healed atomic.Bool
	late   sync.WaitGroup

	mu   sync.Mutex
	sick map[uuid.UUID]bool // events that no live handler applies
	sent map[uuid.UUID]bool // events that have had their effect
}

func simulateRebuild(t *testing.T, seed uint64, total *rebuildFaults) {
	d := newDice(seed, 0)
	w := &rebuildWorld{
		t: t, faults: total, log: newFakeLog(), m: memtarget.New[string](),
		sick: map[uuid.UUID]bool{}, sent: map[uuid.UUID]bool{},
	}
	w.log.features.UniqueEventIDs = d.permille(500)
	w.log.features.Log = uuid.New()
	if d.permille(400) {
		w.lanes = 3
	}
	store := newDice(seed, 1)
	w.log.broken = func(string) error {
		if !w.healed.Load() && store.permille(10) {
			return errTest
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var world sync.WaitGroup
	for i := range uint64(1 + d.below(2)) {
		world.Go(func() { w.replica(ctx, newDice(seed, 10+i)) })
	}
	for i := range uint64(1 + d.below(2)) {
		world.Go(func() { w.rebuilder(ctx, newDice(seed, 20+i)) })
	}
	world.Go(func() { w.operator(ctx, newDice(seed, 3)) })
	world.Go(func() { w.observe(ctx) })
	w.write(d)
	time.Sleep(d.upTo(20 * time.Second))
	w.healed.Store(true)
	cancel()
	world.Wait()
	w.late.Wait()

	// All is well now: one more rebuild, and what is parked is retried.
	w.mu.Lock()
	clear(w.sick)
	w.mu.Unlock()
	p := projector.New(w.log, w.m, w.config(d), w.handler(d))
	run := start(t, p)
	all := w.log.all()
	for i := 0; ; i++ {
		_, err := p.Retry(short(t))
		require.NoError(t, err)
		err = p.WaitFor(short(t), all[len(all)-1].Position)
		if err == nil {
			break
		}
		if i == 20 {
			l, _ := w.m.Parked(context.Background(), name, projector.ParkedQuery{})
			for _, p := range l {
				p.Record.Data = nil
				t.Logf("%+v", p)
			}
			t.Logf("%+v now %v", stateOf(t, w.m), time.Now().UTC())
		}
		require.Less(t, i, 20, "%v", err)
		time.Sleep(time.Second)
	}
	w.equal()
	_, err := projector.Rebuild(t.Context(), w.m, rebuilding{Tag: "last"}, projector.New(w.log, w.m, w.config(d), w.handler(d)))
	require.NoError(t, err)
	run.stop(t)
	w.equal()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.kept() {
		require.True(t, r.Type != "Added" || w.sent[r.ID], "%s was replayed only", r.Position)
	}
}

func (w *rebuildWorld) config(d *dice) projector.Config {
	cfg := config()
	cfg.BatchSize, cfg.BatchTime, cfg.Lanes = 1+d.below(6), d.upTo(100*time.Millisecond), w.lanes
	cfg.Keys = projector.DataKeys("key")
	cfg.Failures = projector.Policy{Attempts: 2, Then: projector.Park}
	return cfg
}

// kept are the events of the log that nobody has discarded.
func (w *rebuildWorld) kept() (kept []event.Record) {
	settled, err := w.m.Parked(context.Background(), name, projector.ParkedQuery{Settled: true, Limit: 1000})
	require.NoError(w.t, err)
	gone := map[uuid.UUID]bool{}
	for _, p := range settled {
		if p.Outcome == projector.Discarded {
			gone[p.Record.ID] = true
		}
	}
	for _, r := range w.log.all() {
		if !gone[r.ID] {
			kept = append(kept, r)
		}
	}
	return kept
}

func (w *rebuildWorld) equal() {
	w.t.Helper()
	require.Equal(w.t, fold(w.kept()), values(w.m))
}

// handler fails at times, and holds each delivery to what it may be.
func (w *rebuildWorld) handler(d *dice) projector.Handler[tx] {
	return func(ctx context.Context, x tx, e projector.Delivery) error {
		a := e.Event.(Added)
		was, _ := x.Get(a.Key)
		if strings.Contains(was+",", fmt.Sprint(",", a.N, ",")) {
			w.t.Errorf("%v comes again at %s, replay %v: %s", a, e.Position, e.Replay, was)
		}
		w.mu.Lock()
		sick, sent := w.sick[e.ID], w.sent[e.ID]
		w.mu.Unlock()
		switch {
		case e.Replay && !sent:
			w.t.Errorf("%v is replayed at %s and was never applied", a, e.Position)
		case e.Replay:
			w.faults.replayed.Add(1)
		case sick:
			return errTest
		}
		if !w.healed.Load() && d.permille(30) {
			x.Put("half", "written")
			return errTest
		}
		if d.permille(200) {
			time.Sleep(d.upTo(100 * time.Millisecond))
		}
		if !e.Replay {
			w.mu.Lock()
			w.sent[e.ID] = true
			w.mu.Unlock()
		}
		return add(ctx, x, e)
	}
}

func (w *rebuildWorld) write(d *dice) {
	counts := map[string]int{}
	for range 20 + d.below(30) {
		all := w.log.all()
		switch {
		case d.permille(150):
			w.log.add(record(w.t, Strange{"a"}))
		case !w.log.features.UniqueEventIDs && len(all) > 0 && d.permille(200):
			w.log.add(all[d.below(len(all))])
		default:
			key := string(rune('a' + d.below(4)))
			counts[key]++
			r := record(w.t, Added{key, counts[key]})
			if d.permille(100) {
				w.mu.Lock()
				w.sick[r.ID] = true
				w.mu.Unlock()
			}
			at := w.log.add(r)
			if d.permille(200) {
				w.late.Go(func() { w.waitFor(at) })
			}
		}
		if d.permille(500) {
			time.Sleep(d.upTo(3 * time.Second))
		}
	}
}

func (w *rebuildWorld) waitFor(at consistency.Position) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := projector.New(w.log, w.m, config(), add).WaitFor(ctx, at)
	w.faults.waits.Add(1)
	switch {
	case err == nil:
		if now := stateOf(w.t, w.m).Checkpoint.Position; at.After(now) {
			w.t.Errorf("WaitFor(%s) returned at %s", at, now)
		}
	case !errors.Is(err, projector.ErrParked) && !errors.Is(err, projector.ErrNotYet) && !errors.Is(err, projector.ErrHalted):
		w.t.Errorf("WaitFor: %v", err)
	}
}

// observe sees to it that the live state never goes back, over switches too.
func (w *rebuildWorld) observe(ctx context.Context) {
	var last projector.State
	for {
		s := stateOf(w.t, w.m)
		if last.Checkpoint.Position.After(s.Checkpoint.Position) || last.Epoch > s.Epoch || last.Asked > s.Asked {
			w.t.Errorf("the state went back from %+v to %+v", last, s)
		}
		if last = s; w.m.Wait(ctx, name, s) != nil {
			return
		}
	}
}

// replica is a place where one live worker runs after the other.
func (w *rebuildWorld) replica(world context.Context, d *dice) {
	for world.Err() == nil {
		ctx, stop := context.WithTimeout(world, d.upTo(30*time.Second))
		gen := newGenSteps(w.m, w.trouble(d, stop, 10, 0))
		p := projector.New(w.log, projector.Target[tx](gen), w.config(d), w.handler(d))
		if err := p.Run(ctx); err != nil {
			w.t.Errorf("Run ended: %v", err)
		}
		stop()
		if d.permille(300) {
			_ = sleepIn(world, d.upTo(10*time.Second))
		}
		if s := stateOf(w.t, w.m); s.Held { // by a claim whose answer was lost
			w.m.Freeze(projector.Claim{Name: name, Epoch: s.Epoch})
		}
	}
}

// trouble makes calls fail before or after, take their time, and kill.
func (w *rebuildWorld) trouble(d *dice, kill func(), errors, kills int) func(context.Context, string) error {
	var dead atomic.Bool
	return func(_ context.Context, step string) error {
		if dead.Load() {
			return errKilled
		}
		switch {
		case w.healed.Load():
		case step == "next switch done" && d.permille(100):
			return errTest
		case d.permille(errors):
			if strings.HasSuffix(step, "done") {
				w.faults.lost.Add(1)
			}
			return errTest
		case d.permille(20):
			time.Sleep(d.upTo(time.Second))
		case d.permille(kills):
			w.faults.kills.Add(1)
			kill()
			if d.permille(500) {
				dead.Store(true)
				return errKilled
			}
		}
		return nil
	}
}

// rebuilder rebuilds again and again.
func (w *rebuildWorld) rebuilder(world context.Context, d *dice) {
	tag := "one"
	for world.Err() == nil {
		_ = sleepIn(world, d.upTo(5*time.Second))
		ctx, stop := context.WithCancel(world)
		gen := &lateGen{genSteps: newGenSteps(w.m, w.trouble(d, stop, 10, 15)), world: w, dice: d}
		cfg := w.config(d)
		cfg.Failures.Attempts = 50 // so that it parks nothing of its own
		cfg.Failures.MaxDelay = time.Second
		said := &told{t: w.t}
		_, before := projector.State{}, int64(0)
		done, err := projector.Rebuild(ctx, gen, rebuilding{Tag: tag, Progress: said.hear, CompareOnly: d.permille(200), HoldLimit: time.Second},
			projector.New[tx](w.log, gen, cfg, w.handler(d)))
		stop()
		if len(said.list) > 0 {
			if before = said.list[0].Done; before > done.Events {
				w.faults.resumed.Add(1)
			}
		}
		switch {
		case err == nil && done.Switched:
			w.faults.switches.Add(1)
		case err == nil:
		case errors.Is(err, projector.ErrHeld), errors.Is(err, projector.ErrClosed):
			w.faults.held.Add(1)
		case strings.Contains(err.Error(), "it is open which generation is live"):
			w.faults.unclear.Add(1)
		case errors.Is(err, errTest), errors.Is(err, errKilled), errors.Is(err, context.Canceled):
		default:
			w.t.Errorf("Rebuild ended: %v", err)
		}
	}
}

// lateGen has batches land in the new generation after their answer was lost.
type lateGen struct {
	*genSteps
	world *rebuildWorld
	dice  *dice
}

func (g *lateGen) Next(ctx context.Context, tag string) (generation, error) {
	next, err := g.genSteps.Next(ctx, tag)
	if err != nil {
		return nil, err
	}
	return &lateNext{next.(*nextSteps), g}, nil
}

type lateNext struct {
	*nextSteps
	gen *lateGen
}

func (n *lateNext) Apply(ctx context.Context, c projector.Claim, from projector.Checkpoint, work func(projector.Batch[tx]) (projector.Checkpoint, error)) error {
	w, d := n.gen.world, n.gen.dice
	if w.healed.Load() || !d.permille(20) {
		return n.nextSteps.Apply(ctx, c, from, work)
	}
	worked := make(chan struct{})
	w.late.Go(func() {
		var once sync.Once
		defer once.Do(func() { close(worked) })
		_ = n.g.Apply(context.WithoutCancel(ctx), c, from, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
			to, err := work(b)
			once.Do(func() { close(worked) })
			time.Sleep(d.upTo(5 * time.Second))
			w.faults.late.Add(1)
			return to, err
		})
	})
	<-worked
	return errTest
}

// operator says what is to be done with parked events.
func (w *rebuildWorld) operator(world context.Context, d *dice) {
	p := projector.New(w.log, w.m, w.config(d), add)
	for sleepIn(world, d.upTo(3*time.Second)) == nil {
		parked, err := p.Parked(world, projector.ParkedQuery{})
		if err != nil || len(parked) == 0 {
			continue
		}
		one := parked[d.below(len(parked))]
		w.faults.parked.Add(1)
		switch {
		case d.permille(300):
			err := p.Discard(world, one.Record.Position, "no use")
			if err == nil {
				w.faults.discarded.Add(1)
			}
		case d.permille(500):
			w.mu.Lock()
			delete(w.sick, one.Record.ID)
			w.mu.Unlock()
			fallthrough
		default:
			_, _ = p.Retry(world)
		}
	}
}

func sleepIn(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
