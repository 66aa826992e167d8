package effecttarget_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/effecttarget"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Ordered is the fact of these tests.
type Ordered struct {
	Customer string `json:"customer"`
	N        int    `json:"n"`
}

func (Ordered) EventType() string { return "Ordered" }

var (
	events  = event.NewCodec(event.Of[Ordered]())
	errTest = errors.New("as the test wants")
)

// sameOrders is a log that is the same in each process that makes it.
func sameOrders(t testing.TB, n int) (eventstore.Store, consistency.Position) {
	store, last := ordersWith(t, n, 1, func(i int) uuid.UUID { return id(uint64(i)) })
	return sameLog{store}, last
}

type sameLog struct{ eventstore.Store }

func (sameLog) Features() eventstore.Features { return eventstore.Features{UniqueEventIDs: true} }

// orders is a log of n events of some customers.
func orders(t testing.TB, n, customers int) (eventstore.Store, consistency.Position) {
	return ordersWith(t, n, customers, func(int) uuid.UUID { return uuid.New() })
}

func ordersWith(t testing.TB, n, customers int, id func(i int) uuid.UUID) (eventstore.Store, consistency.Position) {
	store := memstore.New()
	var last consistency.Position
	for i := range n {
		data, _, err := events.Encode(Ordered{fmt.Sprint("c", i%customers), i}, uuid.Nil)
		require.NoError(t, err)
		receipt, err := store.Append(context.Background(), []event.Record{{ID: id(i), Type: "Ordered", Data: data}}, nil)
		require.NoError(t, err)
		last = receipt.Positions[0]
	}
	return store, last
}

// effectLog is the world outside: what was done, in order. It outlives crashes.
type effectLog struct {
	mu   sync.Mutex
	done []int
}

func (l *effectLog) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, n)
}

func (l *effectLog) all() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.done...)
}

// times counts each effect.
func (l *effectLog) times() map[int]int {
	m := map[int]int{}
	for _, n := range l.all() {
		m[n]++
	}
	return m
}

func config() projector.Config {
	return projector.Config{Name: name.Projector, Events: events, Poll: 50 * time.Millisecond,
		Failures: projector.Policy{FirstDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond}}
}

// run starts a projector; the end stops it.
func run[Tx any](t testing.TB, p *projector.Projector[Tx]) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(end)
	return end
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func point(n uint64) projector.Checkpoint {
	return projector.Checkpoint{Position: consistency.NewPosition(0, n), EventID: id(n)}
}

func id(n uint64) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n)) }

// hooked is a keeper that lets a test in before and after each save: with an
// error from before it does not happen, with one from after its answer is lost.
type hooked struct {
	effecttarget.Keeper
	before, after func(doc []byte) error
	load          func() error
}

func (h *hooked) Load(ctx context.Context, n projector.Name) ([]byte, int64, time.Time, error) {
	if h.load != nil {
		if err := h.load(); err != nil {
			return nil, 0, time.Time{}, err
		}
	}
	return h.Keeper.Load(ctx, n)
}

func (h *hooked) Save(ctx context.Context, n projector.Name, doc []byte, version int64) error {
	if h.before != nil {
		if err := h.before(doc); err != nil {
			return err
		}
	}
	err := h.Keeper.Save(ctx, n, doc, version)
	if err == nil && h.after != nil {
		err = h.after(doc)
	}
	return err
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
