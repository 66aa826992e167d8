package projector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/memtarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Added is the fact of these tests: a number under a key.
type Added struct {
	Key string `json:"key"`
	N   int    `json:"n"`
}

// Strange is known to the log only.
type Strange struct {
	Key string `json:"key"`
}

func (Added) EventType() string   { return "Added" }
func (Strange) EventType() string { return "Strange" }

var (
	codec     = event.NewCodec(event.Of[Added]())
	widerThan = event.NewCodec(event.Of[Added](), event.Of[Strange]())
	name      = projector.Name{Projector: "sums", Boundary: "default"}
	errTest   = errors.New("as the test wants")
)

type (
	tx     = *memtarget.Tx[string]
	target = projector.Target[tx]
	model  = *memtarget.Target[string]
	hook   = func(context.Context, tx, projector.Delivery) error
)

// config is what most tests use: one event per transaction, to see each step.
func config() projector.Config {
	return projector.Config{Name: name.Projector, Events: codec, BatchSize: 1}
}

// add writes all numbers of a key in the order in which they were applied, so
// that a lost, doubled or misplaced one shows.
func add(_ context.Context, x tx, d projector.Delivery) error {
	e := d.Event.(Added)
	was, _ := x.Get(e.Key)
	x.Put(e.Key, fmt.Sprint(was, ",", e.N))
	return nil
}

// fold is the model that add makes of a log.
func fold(records []event.Record) map[string]string {
	m, seen := map[string]string{}, map[uuid.UUID]bool{}
	for _, r := range records {
		if e, err := codec.Decode(r); err == nil && !seen[r.ID] {
			if a, ok := e.(Added); ok {
				m[a.Key] += fmt.Sprint(",", a.N)
			}
		}
		seen[r.ID] = true
	}
	return m
}

func record(t testing.TB, e event.Event) event.Record {
	data, version, err := widerThan.Encode(e, uuid.Nil)
	require.NoError(t, err)
	return event.Record{ID: uuid.New(), Type: e.EventType(), Data: data, Metadata: event.Metadata{Version: version}}
}

func broken() event.Record {
	return event.Record{ID: uuid.New(), Type: "Added", Data: json.RawMessage(`{"key":"a","n":"no number"}`)}
}

// appendAll saves each event on its own and returns the last position.
func appendAll(t testing.TB, s eventstore.Store, records ...event.Record) consistency.Position {
	var at consistency.Position
	for _, r := range records {
		receipt, err := s.Append(context.Background(), []event.Record{r}, nil)
		require.NoError(t, err)
		at = receipt.Positions[0]
	}
	return at
}

// numbers are events 1 to n of one key.
func numbers(t testing.TB, key string, n int) []event.Record {
	var out []event.Record
	for i := range n {
		out = append(out, record(t, Added{key, i + 1}))
	}
	return out
}

// running is a projector whose Run was started.
type running struct {
	end   context.CancelFunc
	ended chan error
}

func start[Tx any](t testing.TB, p *projector.Projector[Tx]) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel, make(chan error, 1)}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.ended <- p.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-gone }) // a test that failed leaves nothing behind
	return r
}

// stop ends Run, which has to return nil.
func (r *running) stop(t testing.TB) {
	t.Helper()
	r.end()
	require.NoError(t, <-r.ended)
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func stateOf(t testing.TB, m target) projector.State {
	t.Helper()
	s, err := m.State(context.Background(), name)
	require.NoError(t, err)
	return s
}

// short limits a call that is expected to succeed, in virtual time mostly.
func short(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// steps wraps a target and lets a hook in before and after each call: with an
// error from before the call does not happen, with one from after its answer is
// lost. "work" is inside a transaction, right before its commit.
type steps[Tx any] struct {
	projector.Target[Tx]
	hook func(ctx context.Context, step string) error
}

func (s *steps[Tx]) around(ctx context.Context, step string, call func() error) error {
	if err := s.hook(ctx, step); err != nil {
		return err
	}
	err := call()
	if lost := s.hook(ctx, step+" done"); lost != nil && err == nil {
		return lost
	}
	return err
}

func (s *steps[Tx]) Claim(ctx context.Context, n projector.Name) (c projector.Claim, err error) {
	err = s.around(ctx, "claim", func() (err error) { c, err = s.Target.Claim(ctx, n); return err })
	return c, err
}

func (s *steps[Tx]) State(ctx context.Context, n projector.Name) (st projector.State, err error) {
	err = s.around(ctx, "state", func() (err error) { st, err = s.Target.State(ctx, n); return err })
	return st, err
}

func (s *steps[Tx]) Release(ctx context.Context, c projector.Claim) error {
	return s.around(ctx, "release", func() error { return s.Target.Release(ctx, c) })
}

func (s *steps[Tx]) Fail(ctx context.Context, c projector.Claim, f projector.Failure) error {
	return s.around(ctx, "fail", func() error { return s.Target.Fail(ctx, c, f) })
}

func (s *steps[Tx]) Wait(ctx context.Context, n projector.Name, seen projector.State) error {
	return s.around(ctx, "wait", func() error { return s.Target.Wait(ctx, n, seen) })
}

func (s *steps[Tx]) Apply(ctx context.Context, c projector.Claim, from projector.Checkpoint, work func(projector.Batch[Tx]) (projector.Checkpoint, error)) error {
	return s.around(ctx, "apply", func() error {
		return s.Target.Apply(ctx, c, from, func(b projector.Batch[Tx]) (projector.Checkpoint, error) {
			to, err := work(b)
			if err == nil {
				err = s.hook(ctx, "work")
			}
			return to, err
		})
	})
}

// fakeLog is a store that can do what the real ones never do: hold an event_id
// twice, show only a part, break.
type fakeLog struct {
	mu       sync.Mutex
	records  []event.Record
	visible  int // pages show so many; 0: all
	changed  chan struct{}
	features eventstore.Features
	broken   func(call string) error     // may be nil
	bend     func(page *eventstore.Page) // may be nil
}

var _ eventstore.Store = (*fakeLog)(nil)

func newFakeLog(records ...event.Record) *fakeLog {
	l := &fakeLog{changed: make(chan struct{})}
	l.add(records...)
	return l
}

// add appends without any check. Positions have gaps.
func (l *fakeLog) add(records ...event.Record) consistency.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		r.Position = consistency.NewPosition(0, uint64(len(l.records)+1)*10)
		r.Time = time.Now().UTC().Truncate(time.Microsecond)
		l.records = append(l.records, r)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	if len(l.records) == 0 {
		return consistency.Position{}
	}
	return l.records[len(l.records)-1].Position
}

// show sets how many events pages show, and hints at it.
func (l *fakeLog) show(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visible = n
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *fakeLog) all() []event.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]event.Record(nil), l.records...)
}

func (l *fakeLog) call(ctx context.Context, call string) error {
	if l.broken != nil {
		if err := l.broken(call); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (l *fakeLog) Append(_ context.Context, records []event.Record, _ []consistency.Observation) (eventstore.Receipt, error) {
	return eventstore.Receipt{Positions: []consistency.Position{l.add(records...)}}, nil
}

func (l *fakeLog) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	if err := l.call(ctx, "snapshot"); err != nil {
		return nil, err
	}
	out := make([]eventstore.Result, len(parts))
	for i, p := range parts {
		for _, r := range l.all() {
			if p.Query.Matches(r.Type, r.Data) && (p.UpTo.IsZero() || !r.Position.After(p.UpTo)) {
				out[i] = eventstore.Result{Records: []event.Record{r}, Last: r.Position} // LatestOnly is all we are asked for
			}
		}
	}
	return out, nil
}

func (l *fakeLog) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (page eventstore.Page, err error) {
	if err := l.call(ctx, "page"); err != nil {
		return page, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range l.records {
		if l.visible > 0 && i >= l.visible || len(page.Records) == limit {
			break
		}
		page.UpTo, page.UpToID = r.Position, r.ID
		if r.Position.After(after) && q.Matches(r.Type, r.Data) {
			page.Records = append(page.Records, r)
		}
	}
	if l.bend != nil {
		l.bend(&page)
	}
	return page, nil
}

func (l *fakeLog) Wait(ctx context.Context, after consistency.Position) error {
	if err := l.call(ctx, "wait"); err != nil {
		return err
	}
	l.mu.Lock()
	changed, n := l.changed, len(l.records)
	more := n > 0 && l.records[n-1].Position.After(after)
	l.mu.Unlock()
	if more {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *fakeLog) Features() eventstore.Features { return l.features }
func (l *fakeLog) Close() error                  { return nil }

// values is the committed model.
func values(m model) map[string]string { return maps.Collect(m.All()) }

func list(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprint(&b, ",", i+1)
	}
	return b.String()
}

func seconds(f func()) float64 {
	began := time.Now()
	f()
	return time.Since(began).Seconds()
}
