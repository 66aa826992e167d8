package sqlitedb

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrPoolClosed is the error of a [Pool] that was closed.
var ErrPoolClosed = errors.New("the pool is closed")

// Pool hands out connections, made when they are needed, to one user each. C
// is a connection with whatever a package keeps beside it.
type Pool[C io.Closer] struct {
	open   func() (C, error)
	tokens chan struct{} // one for each connection that may be out
	closed chan struct{}

	mu   sync.Mutex
	idle []C // last in, first out: its cache is the warmest
}

// NewPool makes a pool of at most size connections.
func NewPool[C io.Closer](size int, open func() (C, error)) *Pool[C] {
	p := &Pool[C]{open: open, tokens: make(chan struct{}, size), closed: make(chan struct{})}
	for range size {
		p.tokens <- struct{}{}
	}
	return p
}

// Take waits for a connection; those who wait are served in their order. It
// ends with ctx's cause or [ErrPoolClosed].
func (p *Pool[C]) Take(ctx context.Context) (C, error) {
	var none C
	select {
	case <-p.tokens:
	default:
		select {
		case <-p.tokens:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case <-p.closed:
			return none, ErrPoolClosed
		}
	}
	select {
	case <-p.closed:
		p.tokens <- struct{}{}
		return none, ErrPoolClosed
	default:
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := p.open()
	if err != nil {
		p.tokens <- struct{}{}
	}
	return c, err
}

// Put gives back a connection that has no transaction open.
func (p *Pool[C]) Put(c C) {
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
	p.tokens <- struct{}{}
}

// Drop gives back a connection that must not be used again.
func (p *Pool[C]) Drop(c C) {
	_ = c.Close()
	p.tokens <- struct{}{}
}

// Pause keeps new users out and waits, up to limit, until no connection is out.
// If that did not come to pass, it has no effect and resume is nil.
func (p *Pool[C]) Pause(limit time.Duration) (resume func()) {
	taken := 0
	resume = func() {
		for ; taken > 0; taken-- {
			p.tokens <- struct{}{}
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for taken < cap(p.tokens) {
		select {
		case <-p.tokens:
			taken++
		case <-timer.C:
			resume()
			return nil
		}
	}
	return resume
}

// Close lets those who wait go with an error, waits for connections that are
// out, and closes all. It is called once.
func (p *Pool[C]) Close() error {
	close(p.closed)
	for range cap(p.tokens) {
		<-p.tokens
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.idle {
		errs = append(errs, c.Close())
	}
	p.idle = nil
	for range cap(p.tokens) {
		p.tokens <- struct{}{} // a late Take finds the pool closed
	}
	return errors.Join(errs...)
}
