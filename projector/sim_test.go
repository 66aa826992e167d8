package projector_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
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

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the simulation of this seed only")
	simCount = flag.Int("sim.count", 0, "number of simulated histories; 0: 2,000, with -short 200")
)

// Histories in virtual time: replicas of one projector come and go, with other
// lanes and policies each time, die, freeze and wake up; answers are lost, commits
// land late; the store lags and breaks; handlers fail, some for good; an operator
// retries, discards and resumes. At each look, and at the end, all that is in the
// model is there once and in the order of its keys, and all up to the checkpoint
// is there, or waits in the park, or was discarded or skipped.
func TestSimulation(t *testing.T) {
	first, count := uint64(1), *simCount
	if count == 0 {
		count = 2000
		if testing.Short() {
			count = 200
		}
	}
	if *simSeed != 0 {
		first, count = *simSeed, 1
	}
	var total faults
	next := make(chan uint64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := range next {
				if t.Failed() {
					continue
				}
				ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
					bubble(t, func(t *testing.T) { simulate(t, seed, &total) })
				})
				if !ok {
					t.Errorf("run it again with -run TestSimulation -sim.seed=%d", seed)
				}
			}
		})
	}
	for seed := first; seed < first+uint64(count); seed++ {
		next <- seed
	}
	close(next)
	workers.Wait()
	t.Logf("%d histories: %s", count, total.String())
	if count >= 200 {
		total.each(func(name string, n *atomic.Int64) { require.NotZero(t, n.Load(), "no history had: %s", name) })
	}
}

// faults counts what happened.
type faults struct {
	events, doubles, pairs, claims, deaths, freezes, lost, before, late, lateLanes, failures, halts,
	parked, behind, skipped, discarded, passed, retries, resumes, lanes, collided, ahead, looks, waits, parkedWaits, lags, cuts atomic.Int64
}

func (f *faults) each(visit func(string, *atomic.Int64)) {
	for _, c := range []struct {
		name string
		n    *atomic.Int64
	}{
		{"events", &f.events}, {"doubles", &f.doubles}, {"events with two keys", &f.pairs},
		{"claims", &f.claims}, {"deaths", &f.deaths}, {"freezes", &f.freezes},
		{"lost answers", &f.lost}, {"errors", &f.before}, {"late commits", &f.late}, {"late lanes", &f.lateLanes},
		{"failed handlers", &f.failures}, {"halts", &f.halts}, {"parked events", &f.parked}, {"parked behind", &f.behind},
		{"skipped", &f.skipped}, {"discarded", &f.discarded}, {"discarded where it halted", &f.passed},
		{"retries", &f.retries}, {"resumes", &f.resumes}, {"lane transactions", &f.lanes}, {"collisions", &f.collided},
		{"events ahead", &f.ahead}, {"looks", &f.looks}, {"waits", &f.waits}, {"waits for parked events", &f.parkedWaits},
		{"lagging pages", &f.lags}, {"broken reads", &f.cuts},
	} {
		visit(c.name, c.n)
	}
}

func (f *faults) String() string {
	var parts []string
	f.each(func(name string, n *atomic.Int64) { parts = append(parts, fmt.Sprint(n.Load(), " ", name)) })
	return strings.Join(parts, ", ")
}

// dice are random numbers that several goroutines may throw.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed, stream uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, stream))} }

func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// permille is true n times in a thousand.
func (d *dice) permille(n int) bool { return d.below(1000) < n }

func (d *dice) upTo(t time.Duration) time.Duration {
	return time.Duration(d.below(int(t)/1000)+1) * 1000
}

// fact is an event of the log, at its first place there. Its number says where
// it stands among the others.
type fact struct {
	n    int
	id   uuid.UUID
	at   consistency.Position
	keys []string
	sick error     // what its handler says; nil: it is well
	ends time.Time // then it is well; zero: never
}

// history is one simulated world.
type history struct {
	t      *testing.T
	faults *faults
	log    *fakeLog
	m      model
	healed atomic.Bool
	late   sync.WaitGroup

	mu        sync.Mutex
	facts     []*fact // in the order of the log
	byID      map[uuid.UUID]*fact
	failed    map[uuid.UUID]bool              // a handler has failed at it
	discarded map[consistency.Position]string // parked events, with the reason that was given
}

func simulate(t *testing.T, seed uint64, total *faults) {
	d := newDice(seed, 0)
	h := &history{
		t: t, faults: total, log: newFakeLog(), m: memtarget.New[string](),
		byID: map[uuid.UUID]*fact{}, failed: map[uuid.UUID]bool{}, discarded: map[consistency.Position]string{},
	}
	h.log.features.UniqueEventIDs = d.permille(500)
	store := newDice(seed, 1)
	h.log.broken = func(string) error {
		if !h.healed.Load() && store.permille(20) {
			total.cuts.Add(1)
			return errTest
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var world sync.WaitGroup
	for i := range uint64(2 + d.below(2)) {
		world.Go(func() { h.replica(ctx, newDice(seed, 10+i)) })
	}
	world.Go(func() { h.observe(ctx, newDice(seed, 2)) })
	world.Go(func() { h.operate(ctx, newDice(seed, 4)) })
	h.write(d)
	time.Sleep(d.upTo(30 * time.Second))
	h.healed.Store(true)
	cancel()
	world.Wait()
	h.late.Wait()
	h.finish(d)
}

// write appends to the log as time goes by, and sets how far pages show it.
func (h *history) write(d *dice) {
	for range 10 + d.below(25) {
		var r event.Record
		all := h.log.all()
		key := string(rune('a' + d.below(4)))
		switch {
		case d.permille(150):
			r = record(h.t, Strange{"a"})
		case !h.log.features.UniqueEventIDs && len(all) > 0 && d.permille(250):
			r = all[d.below(len(all))]
			h.faults.doubles.Add(1)
		case d.permille(200):
			r = h.fact(d, both(h.t, key, string(rune('e'+d.below(2))), len(h.facts)+1))
			h.faults.pairs.Add(1)
		default:
			r = h.fact(d, record(h.t, Added{key, len(h.facts) + 1}))
		}
		at := h.log.add(r)
		h.faults.events.Add(1)
		if d.permille(150) { // pages stand still for a while
			h.faults.lags.Add(1)
			h.log.show(1 + d.below(len(all)+1))
		}
		if d.permille(300) {
			h.log.show(0)
		}
		if d.permille(200) {
			waits := newDice(uint64(d.below(1<<30)), 3)
			h.late.Go(func() { h.waitFor(at, waits) })
		}
		time.Sleep(d.upTo(4 * time.Second))
	}
	h.log.show(0)
}

// fact keeps a new event, which is sometimes sick, for a time or for good.
func (h *history) fact(d *dice, r event.Record) event.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &fact{n: len(h.facts) + 1, id: r.ID, keys: keysOf(r), at: consistency.NewPosition(0, uint64(len(h.log.all())+1)*10)}
	if d.permille(80) {
		f.sick = []error{errTest, errPermanent, errNoMatter, projector.ErrHold}[d.below(4)]
		if d.permille(600) {
			f.ends = time.Now().Add(d.upTo(2 * time.Minute))
		}
	}
	h.facts = append(h.facts, f)
	h.byID[r.ID] = f
	return r
}

// diagnose is what a handler says of an event now.
func (h *history) diagnose(f *fact) error {
	if f.sick == nil || !f.ends.IsZero() && (h.healed.Load() || time.Now().After(f.ends)) {
		return nil
	}
	return f.sick
}

// waitFor holds WaitFor to its answer.
func (h *history) waitFor(at consistency.Position, d *dice) {
	ctx, cancel := context.WithTimeout(context.Background(), d.upTo(2*time.Minute))
	defer cancel()
	var keys []string
	for range d.below(3) {
		keys = append(keys, string(rune('a'+d.below(6))))
	}
	err := projector.New(h.log, h.m, parks(), h.never).WaitFor(ctx, at, keys...)
	h.faults.waits.Add(1)
	switch {
	case err == nil:
		if now := stateOf(h.t, h.m).Checkpoint.Position; at.After(now) {
			h.t.Errorf("WaitFor(%s) returned at %s", at, now)
		}
		if len(keys) == 0 {
			keys = []string{""}
		}
		for _, key := range keys {
			if list := h.parked(projector.ParkedQuery{Key: key, UpTo: at}); len(list) > 0 {
				h.t.Errorf("WaitFor(%s, %q) returned although %s is parked", at, keys, list[0].Record.Position)
			}
		}
	case errors.Is(err, projector.ErrParked):
		h.faults.parkedWaits.Add(1)
	case !errors.Is(err, projector.ErrHalted) && !errors.Is(err, projector.ErrNotYet):
		h.t.Errorf("WaitFor: %v", err)
	}
}

func (h *history) never(context.Context, tx, projector.Delivery) error {
	h.t.Error("a projector that only waits applies events")
	return errTest
}

func (h *history) parked(q projector.ParkedQuery) []projector.Parked {
	list, err := h.m.Parked(context.Background(), name, q)
	if err != nil {
		h.t.Errorf("parked events: %v", err)
	}
	return list
}

// observe compares the model with the log, at any time.
func (h *history) observe(ctx context.Context, d *dice) {
	var last projector.State
	for {
		before := stateOf(h.t, h.m)
		l := h.look()
		after := stateOf(h.t, h.m)
		if last.Checkpoint.Position.After(before.Checkpoint.Position) || last.Epoch > before.Epoch ||
			last.Applied > before.Applied || last.Skipped > before.Skipped || last.Asked > before.Asked {
			h.t.Errorf("the state went back from %+v to %+v", last, before)
		}
		if before == after { // so nothing has changed between the reads of this look
			h.faults.looks.Add(1)
			l.judge(before)
		}
		if before.Failure.Halted {
			h.faults.halts.Add(1)
		}
		last = after
		if h.m.Wait(ctx, name, after) != nil || h.t.Failed() {
			return
		}
		if d.permille(500) {
			time.Sleep(d.upTo(100 * time.Millisecond))
		}
	}
}

// replica is a place where one process after the other runs the projector.
func (h *history) replica(world context.Context, d *dice) {
	for world.Err() == nil {
		ctx, stop := context.WithCancel(world)
		p := &process{history: h, model: h.m, dice: d}
		end := time.AfterFunc(d.upTo(time.Minute), func() {
			if d.permille(400) {
				p.die()
			}
			stop()
		})
		if err := projector.New[tx](h.log, p, h.program(d), p.handle).Run(ctx); err != nil {
			h.t.Errorf("Run ended: %v", err)
		}
		end.Stop()
		stop()
		if world.Err() == nil {
			time.Sleep(d.upTo(10 * time.Second))
		}
	}
}

// program is how a process is set up.
func (h *history) program(d *dice) projector.Config {
	cfg := parks()
	cfg.BatchSize, cfg.BatchTime = 1+d.below(6), d.upTo(100*time.Millisecond)
	cfg.Failures = projector.Policy{
		Attempts: 1 + d.below(5), HaltRetry: d.upTo(time.Minute), MaxParked: 1 + d.below(20),
		Then: []projector.Action{projector.Halt, projector.Park, projector.Park, projector.Skip}[d.below(4)],
	}
	if d.permille(500) {
		cfg.Failures.Judge = func(err error) projector.Rule {
			switch {
			case errors.Is(err, errPermanent):
				return projector.Rule{Attempts: 1, Then: projector.Park}
			case errors.Is(err, errNoMatter):
				return projector.Rule{Then: projector.Skip}
			}
			return projector.Rule{}
		}
	}
	if d.permille(600) {
		cfg.Lanes = 2 + d.below(7)
	}
	if d.permille(100) { // another order of the keys, and one more
		cfg.Keys = projector.KeyFunc(func(r event.Record) []string { return append([]string{"z" + string(r.ID[:1])}, keysOf(r)...) })
	}
	return cfg
}

// finish lets everything be settled: what can be applied is, the rest is
// discarded.
func (h *history) finish(d *dice) {
	cfg := h.program(d)
	cfg.Failures.Judge = nil
	p := projector.New(h.log, h.m, cfg, (&process{history: h, model: h.m, dice: d}).handle)
	run := start(h.t, p)
	at := h.log.add(record(h.t, Strange{"a"})) // so that the checkpoint moves once more
	err := p.WaitFor(short(h.t), at)
	for i := 0; err != nil && i < 200; i++ {
		time.Sleep(time.Second) // what halted an earlier process stands until this one has tried
		for _, e := range h.parked(projector.ParkedQuery{}) {
			if f := h.byID[e.Record.ID]; f.sick != nil && f.ends.IsZero() && e.Failed {
				h.discard(p, e.Record.Position, "for good")
			}
		}
		state := stateOf(h.t, h.m)
		if f := h.byID[state.Failure.EventID]; state.Failure.Halted && f != nil && f.sick != nil && f.ends.IsZero() {
			_ = p.Discard(h.t.Context(), state.Failure.Position, "for good")
		}
		_, err := p.Retry(h.t.Context())
		require.NoError(h.t, err)
		require.NoError(h.t, p.Resume(h.t.Context()))
		time.Sleep(10 * time.Second)
		if err = p.WaitFor(short(h.t), at); err == nil {
			break
		}
	}
	if err = p.WaitFor(short(h.t), at); err != nil {
		h.t.Errorf("it stands still: %v\nstate %+v\nwaiting %v", err, stateOf(h.t, h.m), numbersOf(h.look().waiting))
	}
	run.stop(h.t)
	s := stateOf(h.t, h.m)
	require.Zero(h.t, s.Failure)
	require.Zero(h.t, s.Parked)
	require.False(h.t, s.Held)
	if h.log.features.UniqueEventIDs {
		require.False(h.t, s.Marked, "marks below the checkpoint are dropped")
	}
	h.look().judge(s)
}
