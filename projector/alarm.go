package projector

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// watch has a run read the log together with others of this process, and its
// calls of the handler, the target and the store watched, until end.
func (r *run[Tx]) watch() (end func()) {
	a, f, p := newAlarm(r.cfg, r.reports), joinFeed(r.store), *r.Projector
	handler := p.handler
	p.handler = func(ctx context.Context, tx Tx, d Delivery) error {
		defer a.end(a.begin(&d.Record))
		return handler(ctx, tx, d)
	}
	p.target = watchedTarget[Tx]{p.target, a}
	p.store = &watchedStore{Store: p.store, feed: f, alarm: a}
	r.Projector = &p
	return func() {
		a.stop()
		f.leave()
	}
}

// watchedStore is the store of a run. Its pages come from the feed where they can.
type watchedStore struct {
	eventstore.Store
	feed  *feed
	alarm *alarm
	paged atomic.Bool // no Wait has ended since the last page
}

func (s *watchedStore) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	defer s.alarm.end(s.alarm.call("store"))
	page, err := s.feed.page(ctx, s.Store, q, after, limit, !s.paged.Load())
	s.paged.Store(err == nil)
	return page, err
}

func (s *watchedStore) Wait(ctx context.Context, after consistency.Position) error {
	defer s.paged.Store(false)
	return s.Store.Wait(ctx, after)
}

func (s *watchedStore) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	defer s.alarm.end(s.alarm.call("store"))
	return s.Store.Snapshot(ctx, parts...)
}

// watchedTarget is the target of a run.
type watchedTarget[Tx any] struct {
	Target[Tx]
	alarm *alarm
}

func (t watchedTarget[Tx]) Claim(ctx context.Context, name Name) (Claim, error) {
	defer t.alarm.end(t.alarm.call("target"))
	return t.Target.Claim(ctx, name)
}

func (t watchedTarget[Tx]) State(ctx context.Context, name Name) (State, error) {
	defer t.alarm.end(t.alarm.call("target"))
	return t.Target.State(ctx, name)
}

func (t watchedTarget[Tx]) Apply(ctx context.Context, claim Claim, from Checkpoint, work func(Batch[Tx]) (Checkpoint, error)) error {
	defer t.alarm.end(t.alarm.call("target"))
	return t.Target.Apply(ctx, claim, from, work)
}

// Lane is called only where the target has it.
func (t watchedTarget[Tx]) Lane(ctx context.Context, claim Claim, work func(Batch[Tx]) error) error {
	defer t.alarm.end(t.alarm.call("target"))
	return t.Target.(LaneTarget[Tx]).Lane(ctx, claim, work)
}

func (t watchedTarget[Tx]) Fail(ctx context.Context, claim Claim, failure Failure) error {
	defer t.alarm.end(t.alarm.call("target"))
	return t.Target.Fail(ctx, claim, failure)
}

func (t watchedTarget[Tx]) Parked(ctx context.Context, name Name, q ParkedQuery) ([]Parked, error) {
	defer t.alarm.end(t.alarm.call("target"))
	return t.Target.Parked(ctx, name, q)
}

// alarm tells a Run's log of calls that do not return. It is safe for
// concurrent use. Its timer runs only while there is a call, and is set once for
// many of them.
type alarm struct {
	reports      *reports
	after, every time.Duration
	base         time.Time // what is measured from: this clock alone is cheaper to read

	mu    sync.Mutex
	timer *time.Timer
	armed bool // it will fire
	over  bool
	calls []call
	free  []int // places in calls
}

// call is one that is under way: of the handler, or of something else by name.
type call struct {
	running  bool
	told     bool
	since    time.Duration
	to       string
	position consistency.Position // the rest is of the handler's event
	id       uuid.UUID
	kind     string
}

func newAlarm(c Config, r *reports) *alarm {
	return &alarm{reports: r, after: c.StallAfter, every: c.ReportEvery, base: time.Now()}
}

// stop ends the alarm with its Run.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.timer != nil {
		a.timer.Stop()
	}
}

// begin says that the handler gets an event; the answer is for end.
func (a *alarm) begin(r *event.Record) int {
	a.mu.Lock()
	i := a.place()
	c := &a.calls[i]
	c.to, c.position, c.id, c.kind = "handler", r.Position, r.ID, r.Type
	a.mu.Unlock()
	return i
}

// call says that something else is called; the answer is for end.
func (a *alarm) call(to string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := a.place()
	a.calls[i].to, a.calls[i].position = to, consistency.Position{}
	return i
}

// place makes room for a call that begins now.
func (a *alarm) place() (i int) {
	if n := len(a.free); n > 0 {
		i, a.free = a.free[n-1], a.free[:n-1]
	} else {
		i = len(a.calls)
		a.calls = append(a.calls, call{})
	}
	c := &a.calls[i]
	c.running, c.since = true, time.Since(a.base)
	if !a.armed && !a.over {
		a.armed = true
		if a.timer == nil {
			a.timer = time.AfterFunc(a.after, a.look)
		} else {
			a.timer.Reset(a.after)
		}
	}
	return i
}

// end says that a call has returned.
func (a *alarm) end(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.calls[i]
	if c.told {
		a.reports.ok("goes on after a stall", "called", c.to, "for", (time.Since(a.base) - c.since).Round(time.Millisecond))
	}
	c.running, c.told = false, false
	a.free = append(a.free, i)
}

// look tells of the call that has taken longest, if that is too long. A handler
// that hangs inside the call of a target comes first.
func (a *alarm) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var longest, first *call
	now := time.Since(a.base)
	for i := range a.calls {
		c := &a.calls[i]
		if !c.running {
			continue
		}
		if first == nil || c.since < first.since {
			first = c
		}
		handler := c.to == "handler"
		switch {
		case now-c.since < a.after:
		case longest == nil,
			handler && longest.to != "handler",
			handler == (longest.to == "handler") && c.since < longest.since:
			longest = c
		}
	}
	switch {
	case a.over || first == nil:
		a.armed = false
		return
	case longest == nil:
		a.timer.Reset(first.since + a.after - now)
		return
	}
	longest.told = true
	var attrs []any
	if !longest.position.IsZero() {
		attrs = []any{"position", longest.position, "event_id", longest.id, "type", longest.kind}
	}
	a.reports.error("stalled: no progress although there is work",
		fmt.Errorf("the call of the %s has not returned for %s", longest.to, (now-longest.since).Round(time.Millisecond)), attrs...)
	a.timer.Reset(a.every)
}
