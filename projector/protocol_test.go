package projector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// One test for each rule of the protocol: what goes wrong when it is left out
// is what the test would see.

// A worker that stands still inside a batch for longer than its lease, while
// another one goes on, must not leave anything behind when it wakes up.
func TestRuleEpochIsHeldInTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		wake, in := make(chan struct{}), make(chan struct{})
		frozen := start(t, projector.New(store, m, config(), func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 2 {
				close(in)
				<-wake
			}
			return add(ctx, x, d)
		}))
		last := appendAll(t, store, numbers(t, "a", 3)...)
		<-in
		m.Freeze(projector.Claim{Name: name, Epoch: stateOf(t, m).Epoch})

		standby := projector.New(store, m, config(), add)
		active := start(t, standby)
		began := time.Now()
		require.NoError(t, standby.WaitFor(short(t), last))
		require.InDelta(t, 10, time.Since(began).Seconds(), 1, "a standby takes over after about one lease")
		require.Equal(t, list(3), values(m)["a"])

		close(wake)
		synctest.Wait()
		require.Equal(t, list(3), values(m)["a"], "the woken worker applied an event again")
		require.Equal(t, last, stateOf(t, m).Checkpoint.Position, "the woken worker moved the checkpoint back")
		active.stop(t)
		frozen.stop(t)
	})
}

// What a standby knows from before its claim is old: the last owner may have
// gone on until the moment of the claim.
func TestRuleClaimBeforeTheCheckpointIsRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		other := projector.New(store, m, config(), add)
		claims, tries := 0, 0
		late := &steps[tx]{m, func(_ context.Context, step string) error {
			if step == "claim" && claims == 0 { // another one comes, works and goes right before
				first := start(t, other)
				require.NoError(t, other.WaitFor(short(t), appendAll(t, store, numbers(t, "a", 2)...)))
				first.stop(t)
			}
			if step == "claim" {
				claims++
			}
			return nil
		}}
		p := projector.New[tx](store, late, config(), func(ctx context.Context, x tx, d projector.Delivery) error {
			tries++
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.Eventually(t, func() bool { synctest.Wait(); return claims > 0 }, time.Second, time.Millisecond)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 3}))))
		require.Equal(t, list(3), values(m)["a"])
		require.Equal(t, 1, tries, "it began from a checkpoint of before its claim")
		require.Equal(t, 1, claims)
		run.stop(t)
	})
}

// A log that lets an event_id stand twice, in one batch or far apart.
func TestRuleProcessedIDs(t *testing.T) {
	for _, size := range []int{1, 2, 100} {
		bubble(t, func(t *testing.T) {
			one, two := record(t, Added{"a", 1}), record(t, Added{"a", 2})
			log, m := newFakeLog(one, one, two, one), memtarget.New[string]()
			cfg := config()
			cfg.BatchSize = size
			for range 2 { // the marks outlive a run
				p := projector.New(log, m, cfg, add)
				run := start(t, p)
				require.NoError(t, p.WaitFor(short(t), log.add(two, one)))
				run.stop(t)
			}
			require.Equal(t, list(2), values(m)["a"])
		})
	}
}

// Where the store refuses a second event with the same event_id no marks are
// kept: the target does not grow with the log.
func TestProcessedIDsAreKeptOnlyWhereNeeded(t *testing.T) {
	for _, unique := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
			log.features.UniqueEventIDs = unique
			var marks atomic.Int32
			p := projector.New[tx](log, &countMarks{m, &marks}, config(), add)
			run := start(t, p)
			require.NoError(t, p.WaitFor(short(t), log.all()[2].Position))
			run.stop(t)
			require.Equal(t, map[bool]int32{true: 0, false: 3}[unique], marks.Load())
		})
	}
}

type countMarks struct {
	target
	n *atomic.Int32
}

type countingBatch struct {
	projector.Batch[tx]
	n *atomic.Int32
}

func (b countingBatch) Done(id uuid.UUID, at consistency.Position) error {
	b.n.Add(1)
	return b.Batch.Done(id, at)
}

func (c *countMarks) Apply(ctx context.Context, claim projector.Claim, from projector.Checkpoint, work func(projector.Batch[tx]) (projector.Checkpoint, error)) error {
	return c.target.Apply(ctx, claim, from, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
		return work(countingBatch{b, c.n})
	})
}

// The answer to a commit is lost: the checkpoint tells that it is there.
func TestRuleLostAnswerReadsTheCheckpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		tries, claims, lost := 0, 0, 0
		loses := &steps[tx]{m, func(_ context.Context, step string) error {
			switch {
			case step == "apply done" && lost < 5:
				lost++
				return errTest
			case step == "claim done":
				claims++
			}
			return nil
		}}
		p := projector.New[tx](store, loses, config(), func(ctx context.Context, x tx, d projector.Delivery) error {
			tries++
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, numbers(t, "a", 7)...)))
		run.stop(t)
		require.Equal(t, list(7), values(m)["a"])
		require.Equal(t, 7, tries, "a batch that was there went again")
		require.Equal(t, 1, claims, "it had to claim the name again")
	})
}

// The answer is lost, the checkpoint is read, and then the commit lands: only
// the comparison in the next commit can tell.
func TestRuleCheckpointIsComparedInTheCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		late := &lateCommit{target: m, landed: make(chan struct{})}
		p := projector.New[tx](store, late, config(), add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, numbers(t, "a", 3)...)))
		run.stop(t)
		<-late.landed
		require.Equal(t, list(3), values(m)["a"])
	})
}

// lateCommit answers the first Apply with an error, and commits it when the next
// one has begun.
type lateCommit struct {
	target
	calls  atomic.Int32
	land   chan struct{}
	landed chan struct{}
}

func (l *lateCommit) Apply(ctx context.Context, claim projector.Claim, from projector.Checkpoint, work func(projector.Batch[tx]) (projector.Checkpoint, error)) error {
	switch l.calls.Add(1) {
	case 1:
		l.land = make(chan struct{})
		worked := make(chan struct{})
		go func() {
			defer close(l.landed)
			_ = l.target.Apply(context.WithoutCancel(ctx), claim, from, func(b projector.Batch[tx]) (projector.Checkpoint, error) {
				to, err := work(b)
				close(worked)
				<-l.land
				return to, err
			})
		}()
		<-worked
		return errTest
	case 2:
		close(l.land)
	}
	return l.target.Apply(ctx, claim, from, work)
}

// Pages lag behind the log: the checkpoint goes only as far as the page is
// complete, although the log's head and the hints are far ahead.
func TestRuleCheckpointOnlyUpToWhereThePageIsComplete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 6)...), memtarget.New[string]()
		log.features.UniqueEventIDs = true
		var looks atomic.Int32
		log.broken = func(call string) error {
			if call == "page" {
				looks.Add(1)
			}
			return nil
		}
		log.show(2)
		cfg := config()
		cfg.BatchSize = 100
		p := projector.New(log, m, cfg, add)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[1].Position))
		looks.Store(0)
		require.ErrorIs(t, p.WaitFor(context.Background(), log.all()[5].Position), projector.ErrNotYet)
		require.Equal(t, list(2), values(m)["a"])
		require.Equal(t, log.all()[1].Position, stateOf(t, m).Checkpoint.Position)
		require.Less(t, looks.Load(), int32(200), "a page that lags behind its hints makes it spin")
		log.show(6)
		require.NoError(t, p.WaitFor(short(t), log.all()[5].Position))
		require.Equal(t, list(6), values(m)["a"])
		run.stop(t)
	})
}

// Events that do not match move the checkpoint, too.
func TestRuleCheckpointMovesOverWhatDoesNotMatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		p := projector.New(store, m, config(), add)
		run := start(t, p)
		var last = appendAll(t, store, record(t, Added{"a", 1}), record(t, Strange{"a"}))
		require.NoError(t, p.WaitFor(short(t), last))
		for range 200 {
			last = appendAll(t, store, record(t, Strange{"a"}))
		}
		require.NoError(t, p.WaitFor(short(t), last))
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 2}))))
		require.Equal(t, map[string]string{"a": list(2)}, values(m))
		run.stop(t)
		require.NoError(t, p.Check(t.Context()), "the event_id beside a checkpoint on a foreign type is right")
	})
}

// A batch of five whose third event fails: the two before it are there, of the
// third nothing is, and it is tried alone.
func TestRuleNothingOfAFailedHandlerStays(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, m := memstore.New(), memtarget.New[string]()
				last := appendAll(t, store, numbers(t, "a", 5)...)
				cfg := config()
				cfg.BatchSize = 5
				var attempts []int
				p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
					x.Put("half", "written")
					if d.Event.(Added).N == 3 && len(attempts) < 3 {
						attempts = append(attempts, d.Attempt)
						if how == "panic" {
							panic(errTest)
						}
						return errTest
					}
					x.Delete("half")
					return add(ctx, x, d)
				})
				run := start(t, p)
				synctest.Wait() // it stands in the pause before the second try
				require.Equal(t, map[string]string{"a": list(2)}, values(m))
				s := stateOf(t, m)
				require.Equal(t, 1, s.Failure.Attempts)
				require.Equal(t, "Added", s.Failure.Type)
				require.Contains(t, s.Failure.Error, errTest.Error())
				require.NoError(t, p.WaitFor(short(t), last))
				require.Equal(t, map[string]string{"a": list(5)}, values(m))
				require.Equal(t, []int{1, 2, 3}, attempts)
				require.Equal(t, projector.Failure{}, stateOf(t, m).Failure)
				run.stop(t)
			})
		})
	}
}

// An event that failed is alone in its transaction: that the next one fails,
// too, does not undo it.
func TestFailedEventIsTriedAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		last := appendAll(t, store, numbers(t, "a", 3)...)
		cfg := config()
		cfg.BatchSize = 3
		var got []string
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			n := d.Event.(Added).N
			got = append(got, fmt.Sprint(n, "/", d.Attempt))
			if n < 3 && d.Attempt == 1 {
				return errTest
			}
			return add(ctx, x, d)
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), last))
		run.stop(t)
		require.Equal(t, []string{"1/1", "1/2", "2/1", "2/2", "3/1"}, got)
		require.Equal(t, list(3), values(m)["a"])
	})
}

// Nobody waits inside a transaction: while an event that failed is held back,
// the target is free for others.
func TestRuleNoBackoffInsideATransaction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		appendAll(t, store, numbers(t, "a", 2)...)
		var inside, began atomic.Int64
		watch := &steps[tx]{m, func(_ context.Context, step string) error {
			switch step {
			case "apply":
				began.Store(time.Now().UnixNano())
			case "apply done":
				inside.Add(time.Now().UnixNano() - began.Load())
			}
			return nil
		}}
		p := projector.New[tx](store, watch, config(), func(context.Context, tx, projector.Delivery) error { return errTest })
		run := start(t, p)
		time.Sleep(5 * time.Minute)
		run.stop(t)
		require.Zero(t, inside.Load(), "time passed inside a transaction")
	})
}

// A store that breaks its promise of order is an error, not a hole in the model.
func TestPageOutOfOrderIsNotApplied(t *testing.T) {
	for name, bend := range map[string]func(*eventstore.Page){
		"descending":          func(p *eventstore.Page) { p.Records[0], p.Records[1] = p.Records[1], p.Records[0] },
		"before the position": func(p *eventstore.Page) { p.Records[0].Position = consistency.Position{} },
		"twice":               func(p *eventstore.Page) { p.Records[1] = p.Records[0] },
		"beyond its end":      func(p *eventstore.Page) { p.UpTo = p.Records[1].Position.Prev() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				log, m := newFakeLog(numbers(t, "a", 3)...), memtarget.New[string]()
				log.bend = func(p *eventstore.Page) {
					if len(p.Records) > 1 {
						bend(p)
					}
				}
				cfg := config()
				cfg.BatchSize = 10
				p := projector.New(log, m, cfg, add)
				run := start(t, p)
				err := p.WaitFor(context.Background(), log.all()[2].Position)
				require.ErrorIs(t, err, projector.ErrNotYet)
				require.Empty(t, values(m))
				log.mu.Lock()
				log.bend = nil
				log.mu.Unlock()
				require.NoError(t, p.WaitFor(short(t), log.all()[2].Position))
				run.stop(t)
			})
		})
	}
}
