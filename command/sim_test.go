package command_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/storefault"
)

var (
	simSeed = flag.Uint64("sim.seed", 1, "seed of the first simulated history")
	simRuns = flag.Int("sim.commands", 0, "commands to simulate, if not the usual number")
)

var simDefault = 200_000

// TestSimulation runs commands on several replicas over a store with every
// fault, in virtual time, and then holds each answer against the log: nothing
// is in it twice, nothing is missing, no answer is false, and every decision is
// what the rule says on the facts right before it.
//
//	go test ./command -run Simulation -sim.commands 5000000 -sim.seed 42
func TestSimulation(t *testing.T) {
	total := simDefault
	if testing.Short() {
		total = 10_000
	}
	if *simRuns > 0 {
		total = *simRuns
	}
	tally := map[command.Status]int{}
	replayed, calls, attempts := 0, 0, 0
	for seed := *simSeed; calls < total; seed++ {
		h := &history{seed: seed}
		synctest.Test(t, func(t *testing.T) { h.run(t) })
		for _, e := range h.answers {
			tally[e.out.Status]++
			attempts += e.out.Attempts
			if e.out.Replayed {
				replayed++
			}
		}
		calls += len(h.answers)
		if problem := h.verify(); problem != "" {
			t.Fatalf("seed %d (go test ./command -run Simulation -sim.commands 1 -sim.seed %d):\n%s", seed, seed, problem)
		}
	}
	t.Logf("from seed %d: %d commands, %d attempts, %d replayed: %v", *simSeed, calls, attempts, replayed, tally)
	for s := command.Committed; s <= command.Unknown; s++ {
		if tally[s] == 0 && total >= 10_000 {
			t.Errorf("no command ended %s: the simulation does not reach it", s)
		}
	}
}

// order is a command of a simulation, told by its number.
type order struct {
	n       int
	variant int // 1: the same ID with another payload
}

// answered is one call and its outcome.
type answered struct {
	order         order
	before, after consistency.Position // the head of the log around the call
	out           command.Outcome[map[string]account]
	err           error
}

type history struct {
	seed    uint64
	log     []event.Record
	answers []answered
}

var simAccounts = []string{"ada", "bob", "eve"}

// simCommand is drawn from its number: every replica makes the same one.
type simCommand struct {
	Kind     string
	From, To string
	Cents    int64
}

func (c simCommand) CommandName() string { return c.Kind }
func (c simCommand) Context() command.View[map[string]account] {
	if c.Kind == "follow" { // reads the second account only if the first one has money
		return command.Then(about(c.From), func(a account) command.View[account] {
			if a.Cents > 0 {
				return about(c.To)
			}
			return accounts.None()
		}, func(a, b account) map[string]account { return map[string]account{c.From: a, c.To: b} })
	}
	if c.From == c.To || c.Kind != "transfer" {
		return command.Each(about, c.From)
	}
	return command.Each(about, c.From, c.To)
}

func (c simCommand) Decide(a map[string]account) ([]event.Event, error) {
	have := a[c.From].Cents
	switch c.Kind {
	case "deposit":
		return []event.Event{posted{c.From, c.Cents}}, nil
	case "follow":
		if have <= 0 {
			return nil, nil
		}
		return []event.Event{posted{c.From, -min(have, c.Cents)}, posted{c.To, a[c.To].Cents % 7}}, nil
	}
	if have < c.Cents {
		if c.Kind == "claim" {
			return nil, short{c.Cents - have}
		}
		return nil, errShort
	}
	if c.Kind == "transfer" {
		return []event.Event{posted{c.From, -c.Cents}, posted{c.To, c.Cents}}, nil
	}
	return []event.Event{posted{c.From, -c.Cents}}, nil
}

func (h *history) command(o order) simCommand {
	rng := rand.New(rand.NewPCG(h.seed, uint64(o.n)*2+uint64(o.variant)))
	pick := func() string { return simAccounts[rng.IntN(len(simAccounts))] }
	return simCommand{
		Kind: []string{"deposit", "withdraw", "claim", "transfer", "follow"}[rng.IntN(5)],
		From: pick(), To: pick(), Cents: 1 + rng.Int64N(50),
	}
}

func (h *history) id(o order) int { return int(h.seed)*1000 + o.n }

func (h *history) run(t *testing.T) {
	rng := rand.New(rand.NewPCG(h.seed, 0))
	log := memstore.New()
	cfg := storefault.Rough(h.seed, 0.11*rng.Float64())
	cfg.Hang = 0.02 * rng.Float64()
	cfg.DelayBy = time.Duration(1+rng.IntN(400)) * time.Millisecond
	if rng.IntN(2) == 0 {
		cfg.LateBy = time.Duration(1+rng.IntN(2000)) * time.Millisecond
	}
	faulty := storefault.New(log, cfg)
	defer faulty.Close()
	var replicas []*command.Runner
	for range 3 {
		replicas = append(replicas, command.NewRunner(faulty, command.Config{
			MaxElapsed: time.Duration(1+rng.IntN(3)) * time.Second, MaxAttempts: 1 + rng.IntN(12),
			AttemptTimeout: 300 * time.Millisecond, LastLook: 200 * time.Millisecond,
			CacheBytes: int64(rng.IntN(4)-1) * 1000,
		}))
	}
	head := func() consistency.Position {
		res, err := log.Snapshot(ctx, eventstore.Part{Query: consistency.All(), LatestOnly: true})
		if err != nil {
			t.Error(err)
		}
		return res[0].Last
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(h.seed, 1+uint64(w)))
			for range 34 {
				o := order{n: rng.IntN(150)}
				if rng.IntN(30) == 0 {
					o.variant = 1
				}
				ctx, cancel := context.WithCancel(ctx)
				if rng.IntN(10) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(500))*time.Millisecond)
				}
				a := answered{order: o, before: head()}
				a.out, a.err = command.Run(ctx, replicas[rng.IntN(3)], id(h.id(o)), h.command(o))
				cancel()
				a.after = head()
				mu.Lock()
				h.answers = append(h.answers, a)
				mu.Unlock()
				time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	faulty.Settle()
	for r, err := range eventstore.All(ctx, log, consistency.All(), consistency.Position{}) {
		if err != nil {
			t.Error(err)
		}
		h.log = append(h.log, r)
	}
}

// moment is the state after a save, and which save.
type moment struct {
	at       consistency.Position
	balances map[string]account
}

// save is what one command left in the log.
type save struct {
	records []event.Record
	after   map[string]account // all accounts
	before  map[string]account
}

// verify replays the log by the rules, one save after the other, and holds the
// answers against it. It returns what is wrong.
func (h *history) verify() string {
	saves := map[string]*save{}
	balances := map[string]account{}
	moments := []moment{{balances: maps.Clone(balances)}}
	for i := 0; i < len(h.log); {
		n := h.log[i].Metadata.Events
		if n < 1 || i+n > len(h.log) {
			return fmt.Sprintf("save at %s: %d events of %d", h.log[i].Position, len(h.log)-i, n)
		}
		s := &save{records: h.log[i : i+n], before: maps.Clone(balances)}
		key := string(commandOf(s.records[0]))
		if saves[key] != nil {
			return fmt.Sprintf("command %s is in the log twice", key)
		}
		saves[key] = s
		for _, r := range s.records {
			if string(commandOf(r)) != key {
				return fmt.Sprintf("a save is mixed at %s", r.Position)
			}
			e, err := events.Decode(r)
			if err != nil {
				return err.Error()
			}
			if p, ok := e.(posted); ok {
				balances[p.Account] = balances[p.Account].evolve(e)
			}
		}
		s.after = maps.Clone(balances)
		i += n
		moments = append(moments, moment{s.records[n-1].Position, s.after})
	}
	calls := map[int]int{}
	for _, a := range h.answers {
		calls[a.order.n]++
	}
	for _, a := range h.answers {
		if problem := h.check(a, saves[id(h.id(a.order)).String()], moments, calls[a.order.n]); problem != "" {
			return fmt.Sprintf("command %d variant %d (%+v) answered %s replayed=%v attempts=%d (%v), head %s to %s:\n%s", a.order.n, a.order.variant,
				h.command(a.order), a.out.Status, a.out.Replayed, a.out.Attempts, a.err, a.before, a.after, problem)
		}
	}
	return ""
}

func commandOf(r event.Record) []byte { return r.Data[len(`{"commandId":"`):][:36] }

func (h *history) check(a answered, s *save, moments []moment, calls int) string {
	c := h.command(a.order)
	mine := false
	if s != nil {
		f, _, err := event.Fingerprint(c.Kind, c)
		mine = err == nil && f == s.records[0].Metadata.Fingerprint
	}
	switch a.out.Status {
	case command.Committed:
		if !mine {
			return "it is not in the log"
		}
		return h.checkSaved(a, c, s)
	case command.Refused:
		if recorded, ok := errors.AsType[short](a.err); ok {
			if !mine || s.records[0].Type != event.MarkerType {
				return "its refusal is not recorded"
			}
			if want := c.Cents - s.before[c.From].Cents; recorded.Missing != want || want <= 0 {
				return fmt.Sprintf("the rule says that %d are missing", want)
			}
			return h.checkState(a, c, s.before)
		}
		return unrecorded(a, c, s != nil && mine && calls == 1, moments)
	case command.Nothing:
		return unrecorded(a, c, s != nil && mine && calls == 1, moments)
	case command.Reused:
		if s == nil || mine {
			return "its ID was not used by another payload"
		}
	case command.Contended, command.Unavailable:
		if calls == 1 && s != nil {
			return fmt.Sprintf("it is in the log at %s", s.records[0].Position)
		}
	case command.Unknown:
	default:
		return "no fault of the simulation leads to that"
	}
	if a.err == nil {
		return "no error"
	}
	return ""
}

// checkSaved holds a committed answer against its save: the events are what the
// rule says on the facts right before, the answer is the save.
func (h *history) checkSaved(a answered, c simCommand, s *save) string {
	want, err := c.Decide(s.before)
	if err != nil || len(want) == 0 {
		return fmt.Sprintf("on %v the rule says %v", s.before, err)
	}
	got, err := a.out.Decoded()
	if err != nil || !slices.Equal(got, want) {
		return fmt.Sprintf("events %v (%v), by the rule %v", got, err, want)
	}
	if last := s.records[len(s.records)-1]; a.out.Position != last.Position {
		return fmt.Sprintf("position %s, in the log %s", a.out.Position, last.Position)
	}
	return h.checkState(a, c, s.after)
}

func (h *history) checkState(a answered, c simCommand, want map[string]account) string {
	for who, got := range a.out.State {
		if c.Kind == "follow" && who == c.To && c.From == c.To {
			continue
		}
		if got != want[who] {
			return fmt.Sprintf("state %v, by the log %v", a.out.State, want)
		}
	}
	return ""
}

// unrecorded holds a refusal, or nothing to do, against the moments of the call.
func unrecorded(a answered, c simCommand, landed bool, moments []moment) string {
	if landed {
		return "it is in the log, by this call"
	}
	for i, m := range moments {
		if next := i + 1; next < len(moments) && !moments[next].at.After(a.before) {
			continue // before the call
		}
		if m.at.After(a.after) {
			break
		}
		if events, _ := c.Decide(m.balances); len(events) == 0 {
			return ""
		}
	}
	return "at no moment of the call the rule said so"
}
