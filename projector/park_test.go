package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Both is a fact with two keys.
type Both struct {
	Key string `json:"key"`
	And string `json:"and"`
	N   int    `json:"n"`
}

func (Both) EventType() string { return "Both" }

var pairs = event.NewCodec(event.Of[Added](), event.Of[Both]())

// keysOf are the texts of an event, so that an Added and a Both share them.
func keysOf(r event.Record) (keys []string) {
	for _, name := range []string{"key", "and"} {
		if v, ok := consistency.Value(r.Data, name); ok {
			keys = append(keys, string(v))
		}
	}
	return keys
}

// both is number n of two keys.
func both(t testing.TB, a, b string, n int) event.Record {
	data, version, err := pairs.Encode(Both{a, b, n}, uuid.Nil)
	require.NoError(t, err)
	return event.Record{ID: uuid.New(), Type: "Both", Data: data, Metadata: event.Metadata{Version: version}}
}

// parks is the configuration of tests that park at the first failure.
func parks() projector.Config {
	return projector.Config{
		Name: name.Projector, Events: pairs, Keys: projector.KeyFunc(keysOf),
		Failures: projector.Policy{Then: projector.Park, Attempts: 1},
	}
}

// clinic is a handler whose numbers fail as long as they are sick, with half of
// their work done.
type clinic struct {
	mu    sync.Mutex
	sick  map[int]error
	tries map[int][]int // Delivery.Attempt of each try
}

func newClinic(err error, sick ...int) *clinic {
	c := &clinic{sick: map[int]error{}, tries: map[int][]int{}}
	c.infect(err, sick...)
	return c
}

func (c *clinic) infect(err error, numbers ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range numbers {
		c.sick[n] = err
	}
}

func (c *clinic) heal(numbers ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range numbers {
		delete(c.sick, n)
	}
}

func (c *clinic) triesOf(n int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tries[n]
}

func (c *clinic) handle(_ context.Context, x tx, d projector.Delivery) error {
	n, keys := 0, keysOf(d.Record)
	switch e := d.Event.(type) {
	case Added:
		n = e.N
	case Both:
		n = e.N
	}
	c.mu.Lock()
	c.tries[n] = append(c.tries[n], d.Attempt)
	err := c.sick[n]
	c.mu.Unlock()
	for _, key := range keys {
		was, _ := x.Get(key)
		x.Put(key, fmt.Sprint(was, ",", n))
		if err != nil {
			return err
		}
	}
	return nil
}

// waiting are the numbers that wait in the park, each behind a ! if it failed.
func waiting(t testing.TB, m target) string { return parkedNumbers(t, m, false) }

// settled are the numbers whose wait in the park has ended, each with how.
func settled(t testing.TB, m target) string { return parkedNumbers(t, m, true) }

func parkedNumbers(t testing.TB, m target, settled bool) string {
	t.Helper()
	list, err := m.Parked(context.Background(), name, projector.ParkedQuery{Settled: settled})
	require.NoError(t, err)
	var out []string
	for _, p := range list {
		var data struct{ N any }
		require.NoError(t, json.Unmarshal(p.Record.Data, &data))
		text := fmt.Sprint(data.N)
		switch {
		case settled:
			text += " " + string(p.Outcome)
		case p.Failed:
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// wholeSteps lets hooks into all that a worker calls.
type wholeSteps struct {
	steps[tx]
}

func (s *wholeSteps) Parked(ctx context.Context, n projector.Name, q projector.ParkedQuery) (list []projector.Parked, err error) {
	err = s.around(ctx, "parked", func() (err error) { list, err = s.Target.Parked(ctx, n, q); return err })
	return list, err
}

func (s *wholeSteps) Lane(ctx context.Context, c projector.Claim, work func(projector.Batch[tx]) error) error {
	return s.around(ctx, "lane", func() error {
		return s.Target.(projector.LaneTarget[tx]).Lane(ctx, c, func(b projector.Batch[tx]) error {
			err := work(b)
			if err == nil {
				err = s.hook(ctx, "lane work")
			}
			return err
		})
	})
}

func stepped(m target, hook func(context.Context, string) error) *wholeSteps {
	return &wholeSteps{steps[tx]{m, hook}}
}

// The rules of the table, "parked keys outlive the process; later events of a
// parked key park behind it; retried in order, ids checked": each key is in
// order whatever fails, others go on, also in another process.
func TestRuleParkedKeysStayInOrder(t *testing.T) {
	for _, lanes := range []int{1, 4} {
		for _, restart := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
				cfg := parks()
				cfg.Lanes = lanes
				p := projector.New(store, m, cfg, c.handle)
				run := start(t, p)
				at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"a", 2}), record(t, Added{"b", 3}))
				require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
				require.NoError(t, p.WaitFor(short(t), at, "b"))
				require.Equal(t, map[string]string{"b": ",3"}, values(m))
				if restart {
					run.stop(t)
					p = projector.New(store, m, cfg, c.handle)
					run = start(t, p)
				}
				at = appendAll(t, store, record(t, Added{"a", 4}), record(t, Added{"b", 5}))
				require.NoError(t, p.WaitFor(short(t), at, "b"))
				require.Equal(t, map[string]string{"b": ",3,5"}, values(m))
				require.Equal(t, "1!, 2, 4", waiting(t, m))
				c.heal(1)
				asked, err := p.Retry(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, asked)
				require.NoError(t, p.WaitFor(short(t), at))
				require.Equal(t, map[string]string{"a": ",1,2,4", "b": ",3,5"}, values(m))
				require.Equal(t, "1 applied, 2 applied, 4 applied", settled(t, m))
				require.Empty(t, waiting(t, m))
				at = appendAll(t, store, record(t, Added{"a", 6}))
				require.NoError(t, p.WaitFor(short(t), at))
				require.Equal(t, []int{1}, c.triesOf(6), "the key is not parked any more")
				require.Equal(t, []int{1, 2}, c.triesOf(1))
				run.stop(t)
				s := stateOf(t, m)
				require.EqualValues(t, 6, s.Applied)
				require.Zero(t, s.Skipped)
				require.Zero(t, s.Parked)
			})
		}
	}
}

// An event with two keys that waits behind one of them is parked on both, and
// follows when both are free.
func TestRuleParkedOnOneKeyIsParkedOnAll(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		bubble(t, func(t *testing.T) {
			store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1, 2)
			p := projector.New(store, m, parks(), c.handle)
			run := start(t, p)
			at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"b", 2}), both(t, "a", "b", 3),
				record(t, Added{"b", 4}), record(t, Added{"c", 5}))
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
			require.Equal(t, "1!, 2!, 3, 4", waiting(t, m))
			c.heal(1, 2)
			_, err := p.Retry(t.Context(), first)
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, map[string]string{first: map[string]string{"a": ",1", "b": ",2"}[first], "c": ",5"}, values(m))
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
			_, err = p.Retry(t.Context())
			require.NoError(t, err)
			require.NoError(t, p.WaitFor(short(t), at))
			require.Equal(t, map[string]string{"a": ",1,3", "b": ",2,3,4", "c": ",5"}, values(m))
			run.stop(t)
		})
	}
}

// A second copy of a parked event is passed over, whatever becomes of the first.
func TestRuleParkedIDsAreChecked(t *testing.T) {
	for _, outcome := range []projector.Outcome{projector.Applied, projector.Discarded} {
		bubble(t, func(t *testing.T) {
			one, two := record(t, Added{"a", 1}), record(t, Added{"a", 2})
			log, m, c := newFakeLog(one, one, two, one, two), memtarget.New[string](), newClinic(errTest, 1)
			p := projector.New(log, m, parks(), c.handle)
			run := start(t, p)
			require.ErrorIs(t, p.WaitFor(short(t), log.all()[4].Position), projector.ErrParked)
			require.Equal(t, "1!, 2", waiting(t, m))
			want := ",1,2"
			if outcome == projector.Discarded {
				want = ",2"
				require.NoError(t, p.Discard(t.Context(), log.all()[0].Position, "as the test wants"))
			} else {
				c.heal(1)
				_, err := p.Retry(t.Context())
				require.NoError(t, err)
			}
			require.NoError(t, p.WaitFor(short(t), log.add(one, two)))
			require.Equal(t, map[string]string{"a": want}, values(m))
			run.stop(t)
		})
	}
}

// The rule of the table, "WaitFor knows what is parked": the error names the
// key and the reason; keys that are not concerned are applied; a retry that is
// under way is waited for.
func TestRuleWaitForKnowsWhatIsParked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		cfg := parks()
		hold, letGo := gate()
		defer letGo()
		var slow atomic.Bool
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if slow.Load() {
				<-hold
			}
			return c.handle(ctx, x, d)
		})
		before := appendAll(t, store, record(t, Added{"b", 7}))
		first := appendAll(t, store, record(t, Added{"a", 1}))
		at := appendAll(t, store, record(t, Added{"b", 2}), both(t, "a", "c", 3))
		run := start(t, p)
		err := p.WaitFor(short(t), at)
		require.ErrorIs(t, err, projector.ErrParked)
		var parked *projector.ParkedError
		require.ErrorAs(t, err, &parked)
		require.Equal(t, first, parked.First.Record.Position)
		require.Equal(t, []string{"a"}, parked.First.Keys)
		require.Equal(t, 1, parked.First.Attempts)
		require.ErrorContains(t, err, errTest.Error())
		require.ErrorContains(t, err, `"a"`)
		require.NoError(t, p.WaitFor(short(t), before), "what lies before it is applied")
		require.NoError(t, p.WaitFor(short(t), at, "b"))
		require.NoError(t, p.WaitFor(short(t), first, "c"), "what waits behind it comes later")
		require.ErrorIs(t, p.WaitFor(short(t), at, "b", "c"), projector.ErrParked)
		require.ErrorIs(t, p.WaitFor(short(t), at, "a"), projector.ErrParked)

		slow.Store(true)
		c.heal(1)
		_, err = p.Retry(t.Context())
		require.NoError(t, err)
		go func() { time.Sleep(3 * time.Second); letGo() }()
		began := time.Now()
		require.NoError(t, p.WaitFor(short(t), at, "c"))
		require.Equal(t, 3*time.Second, time.Since(began))
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)

		reader := projector.New(store, m, parks(), c.handle) // which is not running
		require.NoError(t, reader.WaitFor(short(t), at))
	})
}

// Nothing of a failed handler stays, of a parked event's retry either.
func TestRuleNothingOfAFailedRetryStays(t *testing.T) {
	for _, panics := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
			cfg := parks()
			cfg.Logger = book.logger()
			p := projector.New(store, m, cfg, func(_ context.Context, x tx, d projector.Delivery) error {
				x.Put("half", fmt.Sprint(d.Attempt))
				if panics {
					panic(errTest)
				}
				return errTest
			})
			run := start(t, p)
			at := appendAll(t, store, record(t, Added{"a", 1}))
			require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
			require.Len(t, book.with("level=ERROR", "parked: an event"), 1)
			for i := range 3 {
				_, err := p.Retry(t.Context())
				require.NoError(t, err)
				require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
				list, err := p.Parked(t.Context(), projector.ParkedQuery{})
				require.NoError(t, err)
				require.Len(t, list, 1)
				require.Equal(t, i+2, list[0].Attempts, "tries count on")
				require.True(t, list[0].Due.IsZero())
				require.True(t, list[0].Failed)
				require.Equal(t, now(), list[0].Last)
				time.Sleep(time.Second)
			}
			require.Empty(t, values(m))
			require.Zero(t, stateOf(t, m).Applied)
			run.stop(t)
		})
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// What waits behind a parked event is tried as often as any other, with pauses,
// before it waits for somebody too.
func TestWhatFollowsIsTriedByThePolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1, 2)
		cfg := parks()
		cfg.Failures.Attempts = 3
		p := projector.New(store, m, cfg, c.handle)
		at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"a", 2}), record(t, Added{"a", 3}))
		run := start(t, p)
		began := time.Now()
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.NotZero(t, time.Since(began), "tried with pauses")
		require.Equal(t, []int{1, 2, 3}, c.triesOf(1))
		require.Empty(t, c.triesOf(2))
		c.heal(1)
		_, err := p.Retry(t.Context())
		require.NoError(t, err)
		err = p.WaitFor(short(t), at) // goes on waiting while it is tried by itself
		require.ErrorIs(t, err, projector.ErrParked)
		require.Equal(t, []int{1, 2, 3}, c.triesOf(2))
		require.Equal(t, "2!, 3", waiting(t, m))
		time.Sleep(time.Hour)
		require.Equal(t, []int{1, 2, 3}, c.triesOf(2), "no try that nobody asks for")
		c.heal(2)
		_, err = p.Retry(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Equal(t, map[string]string{"a": ",1,2,3"}, values(m))
		run.stop(t)
	})
}

var (
	errTransient = errors.New("may pass")
	errPermanent = errors.New("will not pass")
	errNoMatter  = errors.New("does not matter")
)

// What becomes of an event is decided by the class of its error.
func TestPolicyByTheClassOfAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c, book := memstore.New(), memtarget.New[string](), newClinic(errPermanent, 2), &logbook{}
		c.infect(errNoMatter, 3, 5, 6)
		c.infect(errTransient, 4)
		cfg := parks()
		cfg.Logger = book.logger()
		cfg.Failures = projector.Policy{Attempts: 4, Judge: func(err error) projector.Rule {
			switch {
			case errors.Is(err, errPermanent):
				return projector.Rule{Attempts: 1, Then: projector.Park}
			case errors.Is(err, errNoMatter):
				return projector.Rule{Attempts: 2, Then: projector.Skip}
			}
			return projector.Rule{}
		}}
		p := projector.New(store, m, cfg, c.handle)
		var records []event.Record
		for n := 1; n <= 7; n++ {
			records = append(records, record(t, Added{fmt.Sprint("k", n), n}))
		}
		at := appendAll(t, store, records...)
		run := start(t, p)
		err := p.WaitFor(short(t), at)
		require.ErrorIs(t, err, projector.ErrHalted, "the policy's own Then is Halt")
		require.Equal(t, []int{1}, c.triesOf(2))
		require.Equal(t, []int{1, 2}, c.triesOf(3))
		require.Equal(t, []int{1, 2, 3, 4}, c.triesOf(4))
		require.Empty(t, c.triesOf(5))
		require.Equal(t, "2!", waiting(t, m))
		require.NoError(t, p.WaitFor(short(t), store1(t, store, records[0]), "k1"))
		c.heal(4)
		require.NoError(t, p.Resume(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.Equal(t, map[string]string{"k1": ",1", "k4": ",4", "k7": ",7"}, values(m))
		s := stateOf(t, m)
		require.EqualValues(t, 3, s.Applied)
		require.EqualValues(t, 3, s.Skipped, "3, 5 and 6")
		require.Empty(t, settled(t, m), "one that is skipped is not kept")
		run.stop(t)
		require.NotEmpty(t, book.with("level=ERROR", "skipped: an event", records[2].ID.String()))
	})
}

// store1 is the position of a record.
func store1(t testing.TB, s *memstore.Store, r event.Record) consistency.Position {
	page, err := s.Page(context.Background(), consistency.All(), consistency.Position{}, 1000)
	require.NoError(t, err)
	for _, is := range page.Records {
		if is.ID == r.ID {
			return is.Position
		}
	}
	t.Fatal("not in the log")
	return consistency.Position{}
}

// Skipped events are reported once, and then with their number.
func TestSkippedAreReportedOnceWithTheirNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, book := memstore.New(), memtarget.New[string](), &logbook{}
		cfg := config()
		cfg.Logger, cfg.BatchSize = book.logger(), 10
		cfg.Failures = projector.Policy{Then: projector.Skip, Attempts: 1} // Keys are not needed
		p := projector.New(store, m, cfg, func(context.Context, tx, projector.Delivery) error { return errTest })
		run := start(t, p)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, numbers(t, "a", 50)...)))
		require.EqualValues(t, 50, stateOf(t, m).Skipped)
		require.Len(t, book.with("skipped"), 1)
		time.Sleep(2 * time.Minute)
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, numbers(t, "a", 1)...)))
		require.Len(t, book.with("skipped"), 2)
		require.Len(t, book.with("skipped", "times=50"), 1)
		require.Zero(t, stateOf(t, m).Applied)
		require.Empty(t, values(m))
		run.stop(t)
	})
}

// An event that cannot be decoded is parked behind the key of its raw data, at
// once; one without a key halts the projector.
func TestUndecodableEventsAreParkedBehindTheirRawKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m := memstore.New(), memtarget.New[string]()
		cfg := parks()
		cfg.Failures.Attempts = 5
		bad := broken() // of key a
		p := projector.New(store, m, cfg, newClinic(nil).handle)
		at := appendAll(t, store, record(t, Added{"a", 1}), bad, record(t, Added{"a", 2}), record(t, Added{"b", 3}))
		run := start(t, p)
		began := time.Now()
		err := p.WaitFor(short(t), at)
		require.ErrorIs(t, err, projector.ErrParked)
		require.ErrorContains(t, err, event.ErrUndecodable.Error())
		require.Zero(t, time.Since(began), "tried once")
		require.Equal(t, "no number!, 2", waiting(t, m))
		require.Equal(t, map[string]string{"a": ",1", "b": ",3"}, values(m))

		noKey := event.Record{ID: uuid.New(), Type: "Added", Data: []byte(`{"key":7,"n":9}`)}
		at = appendAll(t, store, noKey, record(t, Added{"b", 4}))
		err = p.WaitFor(short(t), at)
		require.ErrorIs(t, err, projector.ErrHalted)
		require.ErrorContains(t, err, noKey.ID.String())
		require.Equal(t, map[string]string{"a": ",1", "b": ",3"}, values(m))
		run.stop(t)

		// A program that can read them goes on; what is parked waits for a word.
		cfg.Events = event.NewCodec(event.Of[lenient]())
		p = projector.New(store, m, cfg, func(_ context.Context, x tx, d projector.Delivery) error {
			x.Put("last", fmt.Sprint(d.Event.(lenient).N))
			return nil
		})
		run = start(t, p)
		_, err = p.Retry(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted, "the key is no text for this one either")
		require.Empty(t, waiting(t, m))
		require.Equal(t, "2", values(m)["last"])
		run.stop(t)
	})
}

// Other keys than those of the process that parked: what waits is brought to
// them, in order, and what comes now waits behind.
func TestRuleParkedKeysOutliveTheProcessWithOtherKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		p := projector.New(store, m, parks(), c.handle)
		run := start(t, p)
		at := appendAll(t, store, record(t, Added{"a", 1}), both(t, "a", "b", 2), record(t, Added{"c", 3}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		run.stop(t)

		cfg := parks()
		cfg.Keys = projector.KeyFunc(func(r event.Record) []string { return append([]string{"type " + r.Type}, keysOf(r)[1:]...) })
		p = projector.New(store, m, cfg, c.handle)
		run = start(t, p)
		synctest.Wait()
		// The second waits for nothing any more: it follows at once.
		require.Equal(t, map[string]string{"a": ",2", "b": ",2", "c": ",3"}, values(m))
		list, err := p.Parked(t.Context(), projector.ParkedQuery{})
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, []string{"type Added"}, list[0].Keys)
		at = appendAll(t, store, record(t, Added{"d", 4}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.Equal(t, "1!, 4", waiting(t, m))
		c.heal(1)
		_, err = p.Retry(t.Context(), "type Added")
		require.NoError(t, err)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Equal(t, ",2,1", values(m)["a"])
		run.stop(t)
	})
}

// A program without keys must not pass what should wait behind parked events.
func TestParkedEventsNeedKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		p := projector.New(store, m, parks(), c.handle)
		run := start(t, p)
		at := appendAll(t, store, record(t, Added{"a", 1}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		run.stop(t)
		at = appendAll(t, store, record(t, Added{"a", 2}))
		cfg := config()
		err := projector.New(store, m, cfg, add).Run(short(t))
		require.ErrorIs(t, err, projector.ErrMisuse)
		require.ErrorContains(t, err, "1 events are parked")
		require.False(t, stateOf(t, m).Held)
		require.Empty(t, values(m))

		require.NoError(t, p.Discard(t.Context(), store1(t, store, page(t, store)[0]), "why"))
		run = start(t, p)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
		run = start(t, projector.New(store, m, cfg, add)) // nothing waits
		require.NoError(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 3}))))
		run.stop(t)
		require.Equal(t, map[string]string{"a": ",2,3"}, values(m))
	})
}

func page(t testing.TB, s *memstore.Store) []event.Record {
	page, err := s.Page(context.Background(), consistency.All(), consistency.Position{}, 1000)
	require.NoError(t, err)
	return page.Records
}

// An outage does not put the whole log into the park.
func TestMaxParkedHalts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c, book := memstore.New(), memtarget.New[string](), newClinic(errTest, 1, 2, 3, 4), &logbook{}
		cfg := parks()
		cfg.Logger, cfg.Failures.MaxParked = book.logger(), 2
		p := projector.New(store, m, cfg, c.handle)
		run := start(t, p)
		var at consistency.Position
		for n := range 5 {
			at = appendAll(t, store, record(t, Added{fmt.Sprint("k", n), n + 1}))
		}
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
		require.Equal(t, "1!, 2!", waiting(t, m))
		require.NotEmpty(t, book.with("level=ERROR", "MaxParked is 2"))
		c.heal(1, 2, 3, 4)
		_, err := p.Retry(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, p.WaitFor(short(t), at), "a word has the halted one tried too")
		run.stop(t)
	})
}

// ErrHold is never parked nor skipped: not when a later try fails otherwise, not
// in another process.
func TestErrHoldIsSticky(t *testing.T) {
	hold := fmt.Errorf("nobody knows: %w", projector.ErrHold)
	for _, then := range []projector.Action{projector.Park, projector.Skip} {
		for _, lanes := range []int{1, 2} {
			bubble(t, func(t *testing.T) {
				store, m, c := memstore.New(), memtarget.New[string](), newClinic(hold, 1)
				cfg := parks()
				cfg.Failures.Then, cfg.Failures.Attempts, cfg.Lanes = then, 2, lanes
				p := projector.New(store, m, cfg, c.handle)
				run := start(t, p)
				at := appendAll(t, store, record(t, Added{"a", 1}), record(t, Added{"b", 2}))
				synctest.Wait()
				require.Equal(t, []int{1}, c.triesOf(1))
				c.infect(errTest, 1) // the second try fails otherwise
				require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
				require.True(t, stateOf(t, m).Failure.Hold)
				run.stop(t)
				run = start(t, p)
				time.Sleep(5 * time.Minute)
				require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
				require.Greater(t, len(c.triesOf(1)), 5)
				require.Empty(t, waiting(t, m))
				require.Zero(t, stateOf(t, m).Skipped)
				c.heal(1)
				require.NoError(t, p.Resume(t.Context()))
				synctest.Wait()
				require.NoError(t, p.WaitFor(short(t), at))
				require.Equal(t, map[string]string{"a": ",1", "b": ",2"}, values(m))
				run.stop(t)
			})
		}
	}
}

// A parked event whose retry ends with ErrHold is tried by itself until it is
// known, also when later tries fail otherwise.
func TestErrHoldOfAParkedEventIsSticky(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		p := projector.New(store, m, parks(), c.handle)
		run := start(t, p)
		at := appendAll(t, store, record(t, Added{"a", 1}))
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		c.infect(projector.ErrHold, 1)
		_, err := p.Retry(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		c.infect(errTest, 1)
		time.Sleep(5 * time.Minute)
		require.Greater(t, len(c.triesOf(1)), 10)
		run.stop(t)
		run = start(t, p)
		tries := len(c.triesOf(1))
		time.Sleep(5 * time.Minute)
		require.Greater(t, len(c.triesOf(1)), tries+10)
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrNotYet, "it is on its way")
		c.heal(1)
		require.NoError(t, p.WaitFor(short(t), at))
		run.stop(t)
	})
}

// A judge that panics, or says what nobody knows, halts.
func TestJudgeThatCannotJudgeHalts(t *testing.T) {
	for what, judge := range map[string]func(error) projector.Rule{
		"panics":  func(error) projector.Rule { panic("no idea") },
		"unknown": func(error) projector.Rule { return projector.Rule{Then: "explode"} },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
				cfg := parks()
				cfg.Failures.Judge = judge
				p := projector.New(store, m, cfg, c.handle)
				run := start(t, p)
				at := appendAll(t, store, record(t, Added{"a", 1}))
				require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrHalted)
				require.Empty(t, waiting(t, m))
				require.Empty(t, settled(t, m))
				c.heal(1)
				require.NoError(t, p.Resume(t.Context()))
				synctest.Wait()
				require.NoError(t, p.WaitFor(short(t), at))
				run.stop(t)
			})
		})
	}
}

// With other keys an event may share one with a parked event that stands behind
// it in the log: it does not wait for that one.
func TestRuleOnlyWhatStandsBeforeAnEventHoldsItUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, m, c := memstore.New(), memtarget.New[string](), newClinic(errTest, 1)
		cfg := parks()
		cfg.Lanes = 2
		p := projector.New(store, m, cfg, func(ctx context.Context, x tx, d projector.Delivery) error {
			if d.Event.(Added).N == 2 {
				<-ctx.Done()
				return ctx.Err()
			}
			return c.handle(ctx, x, d)
		})
		run := start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), appendAll(t, store, record(t, Added{"a", 1}))), projector.ErrParked)
		at := appendAll(t, store, record(t, Added{"b", 2}), record(t, Added{"a", 3}))
		synctest.Wait()
		run.stop(t)
		require.Equal(t, "1!, 3", waiting(t, m))

		c.heal(1)
		c.infect(errTest, 3)
		_, err := p.Retry(t.Context())
		require.NoError(t, err)
		cfg = parks()
		cfg.Keys = projector.KeyFunc(func(event.Record) []string { return []string{"all"} })
		p = projector.New(store, m, cfg, c.handle)
		run = start(t, p)
		require.ErrorIs(t, p.WaitFor(short(t), at), projector.ErrParked)
		require.Equal(t, "3!", waiting(t, m))
		c.heal(3)
		_, err = p.Retry(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.WaitFor(short(t), at))
		require.Equal(t, map[string]string{"a": ",1,3", "b": ",2"}, values(m))
		run.stop(t)
	})
}
