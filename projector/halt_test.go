package projector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// logbook keeps what was logged.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(line))
	return len(line), nil
}

func (b *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// with returns the lines that hold all the texts.
func (b *logbook) with(texts ...string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(l, text)
		}
		if all {
			found = append(found, l)
		}
	}
	return found
}

// An event that always fails is tried a few times, then slowly; the reason is
// in WaitFor and in the log; once the reason is gone all goes on.
func TestHalt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
		cfg := config()
		cfg.Logger, cfg.Failures.Attempts = book.logger(), 4
		var tries []time.Duration
		var repaired atomic.Bool
		began := time.Now()
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 2 && !repaired.Load() {
				tries = append(tries, time.Since(began))
				return fmt.Errorf("try %d: %w", d.Attempt, errTest)
			}
			return add(ctx, x, d)
		})
		records := numbers(t, "a", 3)
		first := appendAll(t, store, records[0])
		last := appendAll(t, store, records[1:]...)
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), first))

		// The one who waits hears of it as soon as the last quick try has failed.
		err := p.WaitFor(short(t), last)
		require.ErrorIs(t, err, projector.ErrHalted)
		synctest.Wait()
		require.Len(t, tries, 4)
		require.Equal(t, tries[3], time.Since(began))
		for i, within := range []float64{0, 0.15, 0.45, 1.05} {
			require.LessOrEqual(t, tries[i].Seconds(), within)
		}
		var halted *projector.HaltedError
		require.ErrorAs(t, err, &halted)
		f := halted.Failure
		require.Equal(t, records[1].ID, f.EventID)
		require.Equal(t, "Added", f.Type)
		require.Equal(t, 4, f.Attempts)
		require.Contains(t, err.Error(), "try 4: "+errTest.Error())
		require.Contains(t, err.Error(), records[1].ID.String())
		require.Equal(t, began.Add(tries[0]).UTC().Truncate(time.Microsecond), f.First)
		require.Equal(t, began.Add(tries[3]).UTC().Truncate(time.Microsecond), f.Last)

		// What lies before is applied, and says so; again: at once.
		require.NoError(t, p.WaitFor(short(t), first))
		at := time.Now()
		require.ErrorIs(t, p.WaitFor(short(t), last), projector.ErrHalted)
		require.Zero(t, time.Since(at))
		lag, err := p.Lag(t.Context())
		require.NoError(t, err)
		require.Equal(t, f, lag.Failure)
		require.False(t, lag.CaughtUp())

		// One slow try each 30 s, one line a minute.
		time.Sleep(time.Hour)
		synctest.Wait()
		require.InDelta(t, 4+120, len(tries), 1)
		lines := book.with("halted", "level=ERROR")
		require.InDelta(t, 60, len(lines), 2)
		require.Contains(t, lines[len(lines)-1], "times=2")
		require.Len(t, book.with("trying again"), 1, "the tries before the halt")
		require.True(t, stateOf(t, m).Held, "a halted projector keeps its name")
		require.Equal(t, map[string]string{"a": list(1)}, values(m))

		repaired.Store(true)
		time.Sleep(31 * time.Second)
		require.NoError(t, p.WaitFor(short(t), last))
		require.Equal(t, map[string]string{"a": list(3)}, values(m))
		require.Equal(t, projector.Failure{}, stateOf(t, m).Failure)
		run.stop(t)
	})
}

// Tries are counted over restarts, and a new program is tried at once.
func TestAttemptsSurviveARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		last := appendAll(t, store, numbers(t, "a", 3)...)
		cfg := config()
		cfg.Failures.Attempts, cfg.BatchSize = 5, 10
		var attempts []int
		fails := func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 2 {
				attempts = append(attempts, d.Attempt)
				return errTest
			}
			return add(ctx, x, d)
		}
		for i := range 7 {
			run := start(t, projector.New(store, m, cfg, fails))
			synctest.Wait()
			run.stop(t)
			require.Equal(t, i >= 4, stateOf(t, m).Failure.Halted)
		}
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7}, attempts)

		p := projector.New(store, m, cfg, add)
		began := time.Now()
		run := start(t, p)
		synctest.Wait()
		require.NoError(t, p.WaitFor(short(t), last))
		require.Zero(t, time.Since(began), "the corrected program waits for the slow retry")
		run.stop(t)
		require.Equal(t, list(3), values(m)["a"])
	})
}

// A stored failure does not make an event before it come late, nor alone.
func TestFailureFurtherOnDoesNotHoldUpWhatComesBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		log, m := newFakeLog(numbers(t, "a", 4)...), memtarget.New[string]()
		third := log.all()[2]
		claim, err := m.Claim(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, m.Fail(t.Context(), claim, projector.Failure{Position: third.Position, EventID: third.ID, Attempts: 3, Halted: true}))
		require.NoError(t, m.Release(t.Context(), claim))
		cfg := config()
		cfg.BatchSize = 10
		var got []string
		p := projector.New(log, m, cfg, func(_ context.Context, _ tx, d projector.Delivery) error {
			got = append(got, fmt.Sprint(d.Event.(Added).N, "/", d.Attempt))
			if len(got) == 3 {
				return errTest
			}
			return nil
		})
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), log.all()[1].Position))
		require.ErrorIs(t, p.WaitFor(short(t), third.Position), projector.ErrHalted)
		time.Sleep(time.Minute)
		require.NoError(t, p.WaitFor(short(t), log.all()[3].Position))
		require.Equal(t, []string{"1/1", "2/1", "3/4", "3/5", "4/1"}, got)
		run.stop(t)
	})
}

// What the codec cannot read halts the projector at once and is never passed
// over, and a program that can read it goes on at once.
func TestWhatCannotBeDecodedHalts(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  event.Record
		want error
	}{
		{"undecodable", broken(), event.ErrUndecodable},
		{"unknown type", record(t, Strange{"a"}), event.ErrUnknownType},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
				cfg := config()
				cfg.Query, cfg.Logger, cfg.BatchSize = consistency.Where("key", "a"), book.logger(), 10
				p := projector.New(store, m, cfg, add)
				last := appendAll(t, store, record(t, Added{"a", 1}), c.bad, record(t, Added{"a", 2}))
				run := start(t, p)
				synctest.Wait()
				err := p.WaitFor(t.Context(), last)
				require.ErrorIs(t, err, projector.ErrHalted)
				require.Contains(t, err.Error(), c.want.Error())
				require.Equal(t, 1, stateOf(t, m).Failure.Attempts)
				require.Equal(t, map[string]string{"a": list(1)}, values(m))
				time.Sleep(10 * time.Minute)
				require.Equal(t, map[string]string{"a": list(1)}, values(m), "it was passed over")
				run.stop(t)
				require.NotEmpty(t, book.with("level=ERROR", c.bad.ID.String(), c.bad.Type))

				cfg.Events = event.NewCodec(event.Of[lenient](), event.Of[Strange]())
				p = projector.New(store, m, cfg, func(context.Context, tx, projector.Delivery) error { return nil })
				run = start(t, p)
				synctest.Wait()
				require.NoError(t, p.WaitFor(t.Context(), last))
				run.stop(t)
			})
		})
	}
}

// lenient reads what Added cannot.
type lenient struct {
	Key string `json:"key"`
	N   any    `json:"n"`
}

func (lenient) EventType() string { return "Added" }

// A panic is the error of its event, with its stack.
func TestPanicIsAnError(t *testing.T) {
	for _, value := range []any{errTest, "as a text", error(nil)} {
		bubble(t, func(t *testing.T) {
			store, m := memstore.New(), memtarget.New[string]()
			last := appendAll(t, store, numbers(t, "a", 2)...)
			cfg := config()
			cfg.Failures.Attempts = 1
			p := projector.New(store, m, cfg, func(context.Context, tx, projector.Delivery) error { panicsHere(value); return nil })
			run := start(t, p)
			err := p.WaitFor(short(t), last)
			require.ErrorIs(t, err, projector.ErrHalted)
			require.NotContains(t, err.Error(), "\n", "the stack is in the failure, not in each message")
			f := stateOf(t, m).Failure
			require.Contains(t, f.Error, "panicsHere")
			run.stop(t)
			e := &projector.PanicError{Value: value}
			require.Equal(t, value == any(errTest), errors.Is(e, errTest))
		})
	}
}

func panicsHere(v any) { panic(v) }

// One projector that is halted leaves another on the same target at full speed.
func TestHaltedProjectorLeavesOthersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		bad := config()
		bad.Name = "bad"
		halted := start(t, projector.New(store, m, bad, func(context.Context, tx, projector.Delivery) error { return errTest }))
		p := projector.New(store, m, config(), add)
		run := start(t, p)
		began := time.Now()
		for i := range 100 {
			require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", i + 1}))))
		}
		require.Zero(t, time.Since(began))
		require.Equal(t, list(100), values(m)["a"])
		run.stop(t)
		halted.stop(t)
	})
}

// Text of an error is kept in a form that every target takes.
func TestReasonIsPlainAndBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		last := appendAll(t, store, numbers(t, "a", 1)...)
		cfg := config()
		cfg.Failures.Attempts = 1
		p := projector.New(store, m, cfg, func(context.Context, tx, projector.Delivery) error {
			return errors.New("a\x00b\xff" + strings.Repeat("ä", 100_000))
		})
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), last), projector.ErrHalted)
		reason := stateOf(t, m).Failure.Error
		require.True(t, strings.HasPrefix(reason, "a\uFFFDb\uFFFDää"))
		require.Less(t, len(reason), 10_000)
		require.Equal(t, strings.ToValidUTF8(reason, "?"), reason)
		run.stop(t)
	})
}

// Markers say that a command was refused: they are no events of the domain.
func TestMarkersArePassedOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		cfg := config()
		cfg.Query = consistency.All()
		var got []event.Event
		p := projector.New(store, m, cfg, func(_ context.Context, _ tx, d projector.Delivery) error {
			got = append(got, d.Event)
			return nil
		})
		run := start(t, p)
		id := uuid.New()
		data, version, err := codec.Encode(event.Marker{}, id)
		require.NoError(t, err)
		marker := event.Record{ID: id, Type: event.MarkerType, Data: data, Metadata: event.Metadata{Version: version}}
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, marker, record(t, Added{"a", 1}))))
		require.Equal(t, []event.Event{Added{"a", 1}}, got)
		run.stop(t)
	})
}
