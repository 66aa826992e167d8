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
	"github.com/stretchr/testify/require"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the simulation of this seed only")
	simCount = flag.Int("sim.count", 0, "number of simulated histories; 0: 2,000, with -short 200")
)

// Histories in virtual time: replicas of one projector come and go, die, freeze
// and wake up; answers are lost, commits land late; the store lags and breaks;
// handlers fail. At each look, and at the end, the model is the fold of the log
// up to the checkpoint.
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
	events, doubles, claims, deaths, freezes, lost, before, late, failures, halts, looks, waits, lags, cuts atomic.Int64
}

func (f *faults) each(visit func(string, *atomic.Int64)) {
	for _, c := range []struct {
		name string
		n    *atomic.Int64
	}{
		{"events", &f.events}, {"doubles", &f.doubles}, {"claims", &f.claims}, {"deaths", &f.deaths}, {"freezes", &f.freezes},
		{"lost answers", &f.lost}, {"errors", &f.before}, {"late commits", &f.late}, {"failed handlers", &f.failures},
		{"halts", &f.halts}, {"looks", &f.looks}, {"waits", &f.waits}, {"lagging pages", &f.lags}, {"broken reads", &f.cuts},
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

// history is one simulated world.
type history struct {
	t      *testing.T
	faults *faults
	log    *fakeLog
	m      model
	healed atomic.Bool
	poison sync.Map // event_ids that no handler applies before the world is healed
	late   sync.WaitGroup
}

func simulate(t *testing.T, seed uint64, total *faults) {
	d := newDice(seed, 0)
	h := &history{t: t, faults: total, log: newFakeLog(), m: memtarget.New[string]()}
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
	h.write(d)
	time.Sleep(d.upTo(30 * time.Second))
	h.healed.Store(true)
	cancel()
	world.Wait()
	h.late.Wait()

	p := projector.New(h.log, h.m, config(), add)
	run := start(t, p)
	last := h.log.all()
	err := p.WaitFor(short(t), last[len(last)-1].Position)
	for began := time.Now(); errors.Is(err, projector.ErrHalted) && time.Since(began) < time.Minute; {
		time.Sleep(time.Second) // what halted an earlier process stands until this one has tried
		err = p.WaitFor(short(t), last[len(last)-1].Position)
	}
	require.NoError(t, err)
	run.stop(t)
	require.Equal(t, fold(last), values(h.m))
	require.Equal(t, projector.Failure{}, stateOf(t, h.m).Failure)
}

// write appends to the log as time goes by, and sets how far pages show it.
func (h *history) write(d *dice) {
	counts := map[string]int{}
	for range 10 + d.below(25) {
		var r event.Record
		all := h.log.all()
		switch {
		case d.permille(200):
			r = record(h.t, Strange{"a"})
		case !h.log.features.UniqueEventIDs && len(all) > 0 && d.permille(250):
			r = all[d.below(len(all))]
			h.faults.doubles.Add(1)
		default:
			key := string(rune('a' + d.below(3)))
			counts[key]++
			r = record(h.t, Added{key, counts[key]})
			if d.permille(20) {
				h.poison.Store(r.ID, true)
			}
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
		if d.permille(150) {
			h.late.Go(func() { h.waitFor(at, newDice(uint64(d.below(1<<30)), 3)) })
		}
		time.Sleep(d.upTo(4 * time.Second))
	}
	h.log.show(0)
}

// waitFor holds WaitFor to its answer.
func (h *history) waitFor(at consistency.Position, d *dice) {
	ctx, cancel := context.WithTimeout(context.Background(), d.upTo(2*time.Minute))
	defer cancel()
	err := projector.New(h.log, h.m, config(), add).WaitFor(ctx, at)
	h.faults.waits.Add(1)
	switch {
	case err == nil:
		if now := stateOf(h.t, h.m).Checkpoint.Position; at.After(now) {
			h.t.Errorf("WaitFor(%s) returned at %s", at, now)
		}
	case !errors.Is(err, projector.ErrHalted) && !errors.Is(err, projector.ErrNotYet):
		h.t.Errorf("WaitFor: %v", err)
	}
}

// observe compares the model with the log, at any time.
func (h *history) observe(ctx context.Context, d *dice) {
	var last projector.State
	for {
		before := stateOf(h.t, h.m)
		got := values(h.m)
		after := stateOf(h.t, h.m)
		if last.Checkpoint.Position.After(before.Checkpoint.Position) || last.Epoch > before.Epoch {
			h.t.Errorf("the state went back from %+v to %+v", last, before)
		}
		if before.Checkpoint == after.Checkpoint {
			h.faults.looks.Add(1)
			if want := fold(h.upTo(before.Checkpoint.Position)); fmt.Sprint(got) != fmt.Sprint(want) {
				h.t.Errorf("at %s the model is %v, the log says %v", before.Checkpoint.Position, got, want)
			}
		}
		if before.Failure.Halted {
			h.faults.halts.Add(1)
		}
		last = after
		if h.m.Wait(ctx, name, after) != nil {
			return
		}
		if d.permille(500) {
			time.Sleep(d.upTo(100 * time.Millisecond))
		}
	}
}

func (h *history) upTo(p consistency.Position) []event.Record {
	all := h.log.all()
	for i, r := range all {
		if r.Position.After(p) {
			return all[:i]
		}
	}
	return all
}

// replica is a place where one process after the other runs the projector.
func (h *history) replica(world context.Context, d *dice) {
	for world.Err() == nil {
		ctx, stop := context.WithCancel(world)
		p := &process{history: h, Target: h.m, dice: d}
		cfg := config()
		cfg.BatchSize, cfg.BatchTime = 1+d.below(6), d.upTo(100*time.Millisecond)
		cfg.Failures.Attempts, cfg.Failures.HaltRetry = 1+d.below(5), d.upTo(time.Minute)
		end := time.AfterFunc(d.upTo(time.Minute), func() {
			if d.permille(400) {
				p.die()
			}
			stop()
		})
		if err := projector.New[tx](h.log, p, cfg, p.handle).Run(ctx); err != nil {
			h.t.Errorf("Run ended: %v", err)
		}
		end.Stop()
		stop()
		if world.Err() == nil {
			time.Sleep(d.upTo(10 * time.Second))
		}
	}
}
