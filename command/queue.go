package command

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// queue lets commands of this process that keep colliding on a context go one
// after the other. Only contexts that were seen to collide have a place in it;
// a context that many commands read and none moves never holds them up.
type queue struct {
	places atomic.Int64 // len(hot): a look without the lock
	mu     sync.Mutex
	hot    map[string]*place
}

type place struct {
	name  string
	turn  chan struct{} // holds one token while somebody works
	users int           // working or waiting
	heat  int           // passes without company until the place is given up
}

const (
	fullHeat  = 64
	mostHeats = 1 << 14 // places kept; beyond it unused ones are given up
)

// enter waits for the turns of those contexts that are hot, in a fixed order.
// It returns how to leave them, or why it could not wait any longer.
func (q *queue) enter(ctx context.Context, until time.Time, contexts []string) (leave func(), err error) {
	if q.places.Load() == 0 || len(contexts) == 0 {
		return func() {}, nil
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	contexts = slices.Compact(slices.Sorted(slices.Values(contexts)))
	var mine []*place
	leave = func() {
		for _, p := range slices.Backward(mine) {
			<-p.turn
			q.drop(p)
		}
		mine = nil
	}
	for _, name := range contexts {
		p := q.join(name)
		if p == nil {
			continue
		}
		select {
		case p.turn <- struct{}{}:
			mine = append(mine, p)
		case <-ctx.Done():
			q.drop(p)
			leave()
			return func() {}, context.Cause(ctx)
		}
	}
	return leave, nil
}

func (q *queue) join(name string) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.hot[name]
	if p == nil {
		return nil
	}
	p.users++
	if p.users > 1 {
		p.heat = fullHeat
	} else {
		p.heat--
	}
	return p
}

func (q *queue) drop(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.users--; p.users == 0 && p.heat <= 0 {
		q.remove(p)
	}
}

// remove gives a place up. Who works or waits there goes on; nobody joins.
func (q *queue) remove(p *place) {
	if q.hot[p.name] == p {
		delete(q.hot, p.name)
		q.places.Store(int64(len(q.hot)))
	}
}

// heat gives contexts that collided a place.
func (q *queue) heat(contexts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hot == nil {
		q.hot = map[string]*place{}
	}
	for _, name := range contexts {
		if p := q.hot[name]; p != nil {
			p.heat = fullHeat
			continue
		}
		if len(q.hot) >= mostHeats {
			q.clear()
		}
		q.hot[name] = &place{name: name, turn: make(chan struct{}, 1), heat: fullHeat}
	}
	q.places.Store(int64(len(q.hot)))
}

// cool takes the place of a context that turned out not to have moved.
func (q *queue) cool(name string) {
	if q.places.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.hot[name]; p != nil {
		q.remove(p)
	}
}

func (q *queue) clear() {
	for name, p := range q.hot {
		if p.users == 0 {
			delete(q.hot, name)
		}
	}
}
