package sqlitestore

import (
	"context"
	"sync"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/internal/sqlitedb"
)

// How often a file is looked at for commits of other processes, while somebody
// waits. A look costs about two microseconds.
const (
	lookEvery  = 5 * time.Millisecond
	lookFailed = 100 * time.Millisecond // after an error
)

// waiters are who waits for events in a file. Commits of this process tell them
// directly; those of others are seen by one watcher for all.
type waiters struct {
	mu       sync.Mutex
	known    map[string]*boundary // written with files.mu held too
	count    int
	watching bool
	kick     chan struct{} // look at once; one kick is kept
}

func (w *waiters) init() {
	w.known = map[string]*boundary{}
	w.kick = make(chan struct{}, 1)
}

func (w *waiters) kickOff() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *waiters) add(b *boundary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[b.name] = b
}

// raise tells that a boundary has an event at head.
func (w *waiters) raise(b *boundary, head int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if head > b.head {
		b.head = head
		b.wake()
	}
}

func (b *boundary) wake() {
	if b.waiting > 0 {
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// Wait implements [eventstore.Store]. Commits of this process are seen at once,
// those of others within about 5 ms.
func (s *Store) Wait(ctx context.Context, after consistency.Position) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	w, b, from := &s.file.waiters, s.boundary, place(after)

	w.mu.Lock()
	defer w.mu.Unlock()
	if b.head > from {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.arrive(s.file, b)
	defer w.leave(b)
	for hints := b.hints; b.head <= from && b.hints == hints; {
		changed := b.changed
		w.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.closing:
			err = eventstore.Closed()
		}
		w.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *waiters) arrive(f *file, b *boundary) {
	b.waiting++
	w.count++
	if !w.watching {
		w.watching = true
		f.running.Go(f.watch)
	}
	w.kickOff() // what others wrote before is to be seen now
}

func (w *waiters) leave(b *boundary) {
	b.waiting--
	if w.count--; w.count == 0 {
		w.kickOff()
	}
}

// watch looks at the file as long as somebody waits. What it cannot see it
// hides from nobody: after two failures in a row it tells all to look for
// themselves, and their reads name the trouble.
func (f *file) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	version, kicked, failed := int64(-1), true, false
	for {
		awaited := f.waiters.awaited()
		if len(awaited) == 0 {
			return
		}
		err := f.look(&version, kicked, awaited)
		if err == nil {
			timer.Reset(lookEvery)
			select {
			case <-timer.C:
				kicked = false
			case <-f.waiters.kick:
				kicked = true
			}
			failed = false
			continue
		}
		if failed {
			f.waiters.hint(awaited)
		}
		failed, kicked = true, true
		timer.Reset(lookFailed)
		select {
		case <-timer.C:
		case <-f.ctx.Done():
		}
	}
}

// awaited returns the boundaries that somebody waits for. If there is none, the
// watcher counts as gone.
func (w *waiters) awaited() (list []*boundary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.known {
		if b.waiting > 0 {
			list = append(list, b)
		}
	}
	w.watching = len(list) > 0
	return list
}

func (w *waiters) hint(list []*boundary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range list {
		b.hints++
		b.wake()
	}
}

// look raises the heads of boundaries if the file has changed.
func (f *file) look(version *int64, kicked bool, awaited []*boundary) (err error) {
	if f.watcher == nil {
		if f.watcher, err = f.openReader(); err != nil {
			return err
		}
	}
	now, err := sqlitedb.DataVersion(f.watcher.conn)
	if err == nil && (now != *version || kicked) {
		*version = now
		err = f.lookAt(awaited)
	}
	if err != nil {
		_ = f.watcher.Close()
		f.watcher = nil
	}
	return err
}

func (f *file) lookAt(awaited []*boundary) error {
	for _, b := range awaited {
		head, _, err := f.watcher.head(b)
		if err != nil {
			return err
		}
		f.waiters.raise(b, head)
	}
	return nil
}
