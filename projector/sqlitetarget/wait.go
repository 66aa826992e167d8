package sqlitetarget

import (
	"context"
	"sync"
	"time"

	"github.com/cccgo/ccc/internal/sqlitedb"
	"github.com/cccgo/ccc/projector"
)

const (
	// lookEvery is how often the file is looked at for commits of other
	// processes, while somebody waits. A look costs about two microseconds.
	lookEvery  = 5 * time.Millisecond
	lookFailed = 100 * time.Millisecond // after an error
	// waitAtMost brings standbys back to look whether the owner still lives:
	// its death changes nothing in the file.
	waitAtMost = 250 * time.Millisecond
)

// Wait implements [projector.Target]. Commits of this process are seen at once,
// those of others within about 5 ms, an owner's death within 250 ms.
func (t *Target) Wait(ctx context.Context, name projector.Name, seen projector.State) error {
	if err := t.begin(); err != nil {
		return err
	}
	defer t.calls.Done()
	timer := time.NewTimer(t.waitAtMost)
	defer timer.Stop()
	w := &t.file.waiters
	w.arrive(name)
	defer w.leave(name)
	for {
		changed := w.changed(name) // before the look: nothing is missed between
		state, err := t.state(ctx, name)
		if err != nil || state != seen {
			return err
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return t.file.failure("wait for "+name.String(), context.Cause(ctx))
		case <-t.ctx.Done():
			return errClosed()
		}
	}
}

// waiters are who waits for names in a model. Commits of this process tell them
// directly; those of others are seen by one watcher for all.
type waiters struct {
	file    *file
	open    func() (*session, error)
	ended   chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	names    map[projector.Name]*awaited
	watching bool

	// The watcher's, kept between two.
	session *session
	seen    version // of the last look
	live    apart   // where the live generation is not the file
}

// version changes with each commit to the file, or to the live generation.
type version struct{ file, number, live int64 }

type awaited struct {
	count   int
	changed chan struct{}
}

func (w *waiters) init(f *file, open func() (*session, error)) {
	w.file, w.open = f, open
	w.ended = make(chan struct{})
	w.names = map[projector.Name]*awaited{}
}

// close is called when nobody waits any more.
func (w *waiters) close() error {
	close(w.ended)
	w.running.Wait()
	w.live.close()
	if w.session == nil {
		return nil
	}
	return w.session.Close()
}

func (w *waiters) arrive(name projector.Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.names[name]
	if a == nil {
		a = &awaited{changed: make(chan struct{})}
		w.names[name] = a
	}
	a.count++
	if !w.watching {
		w.watching = true
		w.running.Go(w.watch)
	}
}

func (w *waiters) leave(name projector.Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.names[name]
	if a.count--; a.count == 0 {
		delete(w.names, name)
	}
}

func (w *waiters) changed(name projector.Name) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[name].changed
}

// wake tells those who wait for a name to look.
func (w *waiters) wake(name projector.Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.names[name]; a != nil {
		a.wake()
	}
}

func (a *awaited) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.names {
		a.wake()
	}
}

// wanted says whether anybody waits. If not, the watcher counts as gone.
func (w *waiters) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching = len(w.names) > 0
	return w.watching
}

// watch looks for commits as long as somebody waits. It stays a while after the
// last one left: most of them wait again.
func (w *waiters) watch() {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	var seen version // the first look wakes all: what came before is unknown
	for {
		now, err := w.look()
		pause := lookEvery
		if err != nil {
			// They look for themselves, and their error names the trouble.
			now, pause = version{}, lookFailed
		}
		if now != seen || err != nil {
			seen = now
			w.wakeAll()
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.ended:
			return
		}
		if !w.wanted() {
			return
		}
	}
}

func (w *waiters) look() (now version, err error) {
	if w.session == nil {
		if w.session, err = w.open(); err != nil {
			w.session = nil
			return now, err
		}
		w.seen = version{}
	}
	if now, err = w.version(); err != nil {
		_ = w.session.Close()
		w.session = nil
		w.live.close()
	}
	w.seen = now
	return now, err
}

func (w *waiters) version() (now version, err error) {
	now.number = w.seen.number
	if now.file, err = sqlitedb.DataVersion(w.session.conn); err != nil || w.file.root != nil {
		return now, err
	}
	var p pointer
	if now.number == 0 || now.file != w.seen.file { // the pointer may have moved
		if p, err = w.session.pointer(); err != nil {
			return now, err
		}
		if now.number = p.number; p.number == w.file.number {
			w.live.close()
		} else if err = w.file.on(p, w.live.to); err != nil {
			return now, err
		}
	}
	if w.live.session != nil {
		now.live, err = sqlitedb.DataVersion(w.live.session.conn)
	}
	return now, err
}
