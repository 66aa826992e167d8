package storetest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/stretchr/testify/require"
)

// disk keeps logs by name, to be opened again and by several at once.
type disk struct {
	mu   sync.Mutex
	logs map[string]*memstore.Store
}

func (d *disk) open(name string) *wrong {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.logs[name] == nil {
		d.logs[name] = memstore.New()
	}
	return &wrong{Store: &handle{Store: d.logs[name], closed: make(chan struct{})}}
}

// handle is one of several on a log: closing it closes only itself.
type handle struct {
	eventstore.Store
	once   sync.Once
	closed chan struct{}
}

func (h *handle) open() error {
	select {
	case <-h.closed:
		return eventstore.Closed()
	default:
		return nil
	}
}

func (h *handle) Append(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
	if err := h.open(); err != nil {
		return eventstore.Receipt{}, err
	}
	return h.Store.Append(ctx, r, seen)
}

func (h *handle) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	if err := h.open(); err != nil {
		return nil, err
	}
	return h.Store.Snapshot(ctx, parts...)
}

func (h *handle) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	if err := h.open(); err != nil {
		return eventstore.Page{}, err
	}
	return h.Store.Page(ctx, q, after, limit)
}

func (h *handle) Wait(ctx context.Context, after consistency.Position) error {
	if err := h.open(); err != nil {
		return err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-h.closed:
			cancel()
		case <-waiting.Done():
		}
	}()
	err := h.Store.Wait(waiting, after)
	if err != nil && ctx.Err() == nil {
		return eventstore.Closed()
	}
	return err
}

func (h *handle) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func TestStoreWithHandles(t *testing.T) {
	d := disk{logs: map[string]*memstore.Store{}}
	Run(t, Features{Durable: true, SecondHandle: true}, func(name string) (eventstore.Store, error) { return d.open(name), nil })
}

var wrongHandles = []struct {
	what, fails string
	open        func(d *disk, name string, n int) *wrong // n counts what was opened
}{
	{"forgets what was closed", "reopened_log", func(d *disk, _ string, n int) *wrong { return d.open(string(rune('a' + n))) }},
	{"names the log anew when it is opened", "reopened_log", func(d *disk, name string, n int) *wrong {
		w := d.open(name)
		w.features = func() eventstore.Features { return memstore.New().Features() }
		return w
	}},
	{"has one log for all names", "other_log", func(d *disk, _ string, _ int) *wrong { return d.open("one") }},
	{"has one check for all names", "other_log", func(d *disk, name string, _ int) *wrong {
		w := d.open(name)
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			d.mu.Lock()
			logs := len(d.logs)
			d.mu.Unlock()
			if logs > 1 && len(seen) == 2 {
				return eventstore.Receipt{}, eventstore.Conflict
			}
			return w.Store.Append(ctx, r, seen)
		}
		return w
	}},
	{"opens two logs under one name", "second_handle", func(d *disk, _ string, n int) *wrong { return d.open(string(rune('a' + n))) }},
	{"wakes by its own appends only", "second_handle", func(d *disk, name string, _ int) *wrong {
		w := d.open(name)
		woken := make(chan struct{}, 100)
		w.append = func(ctx context.Context, r records, seen observed_) (eventstore.Receipt, error) {
			time.Sleep(1)
			woken <- struct{}{}
			return w.Store.Append(ctx, r, seen)
		}
		w.wait = func(ctx context.Context, _ consistency.Position) error {
			select {
			case <-woken:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return w
	}},
	{"has a lock for each handle", "second_handle_race", func(d *disk, name string, _ int) *wrong {
		w := d.open(name)
		outside(w)
		return w
	}},
	{"shows its own saves first", "second_handle_order", func(d *disk, name string, _ int) *wrong {
		w := d.open(name)
		hide(w).saving(wholeSave, false)
		paced(w)
		return w
	}},
}

func TestWrongHandlesFail(t *testing.T) {
	for _, wrongOne := range wrongHandles {
		t.Run(wrongOne.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, n := disk{logs: map[string]*memstore.Store{}}, 0
				fails(t, wrongOne.fails, Features{Durable: true, SecondHandle: true, Rounds: 60}, func(name string) (eventstore.Store, error) {
					n++
					return wrongOne.open(&d, name, n), nil
				})
			})
		})
	}
}

func TestSkippedCasesSayWhy(t *testing.T) {
	for _, c := range Cases() {
		require.NotEmpty(t, c.Proves, c.Name)
		require.Equal(t, "the store cannot: so", c.skipped(Features{Skip: map[string]string{c.Name: "so"}}))
	}
}
