package projector

import (
	"context"
	"reflect"
	"sort"
	"sync"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

const (
	feedFrom   = 4       // so many Runs on one store share a feed
	feedPage   = 1000    // events that one of its reads asks for
	feedEvents = 4096    // that a window keeps
	feedBytes  = 8 << 20 // of them, at most
)

// feed is what the Runs of this process that read one store share: the latest
// events, so that hundreds of projectors at the head of a log cost one read for
// each thing that happens. It has no goroutine: one of those who want to know
// what is new reads for all. Its records are shared, and nobody changes them.
type feed struct {
	store eventstore.Store
	runs  int // guarded by feeds

	mu      sync.Mutex
	shared  bool        // enough Runs are there
	window  *window     // nil: none is open
	reading *sharedRead // of what comes after the window; nil: none
}

// sharedRead is a read that one does and others wait for.
type sharedRead struct {
	done chan struct{}
	err  error
	void bool // it was ended by its reader: somebody else has to do it
}

// feeds are those of the stores that Runs of this process read.
var feeds = struct {
	sync.Mutex
	of map[eventstore.Store]*feed
}{of: map[eventstore.Store]*feed{}}

// joinFeed counts one more Run that reads a store. Each has to leave. A store
// that cannot be told from others has no feed: nil.
func joinFeed(s eventstore.Store) *feed {
	if !reflect.ValueOf(s).Comparable() {
		return nil
	}
	feeds.Lock()
	defer feeds.Unlock()
	f := feeds.of[s]
	if f == nil {
		f = &feed{store: s}
		feeds.of[s] = f
	}
	f.count(+1)
	return f
}

// leave takes joinFeed back. With the last Run all is gone.
func (f *feed) leave() {
	if f == nil {
		return
	}
	feeds.Lock()
	defer feeds.Unlock()
	if f.count(-1); f.runs == 0 {
		delete(feeds.of, f.store)
	}
}

func (f *feed) count(n int) {
	f.runs += n
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared = f.runs >= feedFrom; !f.shared {
		f.window = nil
	}
}

// page is [eventstore.Store.Page] of s: from the feed where it can be, which
// promises the same, else from the store. Who may have been told of more (told)
// gets what a read finds that begins after his call; who was told nothing since
// his last page, and has it done, need not be told that there is no more. A nil
// feed has nothing.
func (f *feed) page(ctx context.Context, s eventstore.Store, q consistency.Query, after consistency.Position, limit int, told bool) (eventstore.Page, error) {
	if f == nil {
		return s.Page(ctx, q, after, limit)
	}
	fresh := false // a read has ended that began after this call
	for round := 0; ; round++ {
		f.mu.Lock()
		w := f.window
		switch {
		case w == nil || w.from.After(after) || fresh && after.After(w.end):
			f.mu.Unlock()
			return f.direct(ctx, q, after, limit)
		case w.end.After(after) || fresh || w.end == after && !told:
			f.mu.Unlock()
			return w.page(q, after, limit), nil
		}
		read, mine := f.reading, f.reading == nil
		if mine {
			read = &sharedRead{done: make(chan struct{})}
			f.reading = read
		}
		f.mu.Unlock()
		if mine {
			f.advance(ctx, w, read)
		} else {
			select {
			case <-read.done:
			case <-ctx.Done():
				return eventstore.Page{}, ctx.Err()
			}
			if read.void {
				continue
			}
		}
		if read.err != nil {
			return eventstore.Page{}, read.err
		}
		fresh = mine || round > 0
	}
}

// direct asks the store. Who finds out that the log ends where he is opens a
// window there, unless one is open that reaches further.
func (f *feed) direct(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	page, err := f.store.Page(ctx, q, after, limit)
	if err != nil || page.UpTo != after {
		return page, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared && (f.window == nil || after.After(f.window.end)) {
		f.window = &window{from: after, end: after, endID: page.UpToID}
	}
	return page, nil
}

// advance reads what comes after the window. The window is the same afterwards
// if that failed, and gone if the log has less than it.
func (f *feed) advance(ctx context.Context, w *window, read *sharedRead) {
	var next *window
	defer func() { // also if the store panics
		f.mu.Lock()
		defer f.mu.Unlock()
		if read.err == nil && f.window == w {
			f.window = next
		}
		f.reading = nil
		close(read.done)
	}()
	page, err := f.store.Page(ctx, consistency.All(), w.end, feedPage)
	if err == nil {
		err = inOrder(page, Checkpoint{Position: w.end})
	}
	next = w.with(page)
	read.err, read.void = err, err != nil && ctx.Err() != nil
}

// window is a stretch of the log with all that is in it. It never changes.
type window struct {
	from   consistency.Position // it has what lies after it
	events []event.Record       // those that follow are appended behind it
	size   int                  // of events, in bytes
	end    consistency.Position // of the last event up to which it is complete
	endID  uuid.UUID
}

// with returns the window that goes on with a page after its end, without the
// oldest events where there are too many. It returns nil if the page does not
// fit: it comes from a replica that lags behind, or the log was replaced.
func (w *window) with(page eventstore.Page) *window {
	switch {
	case w.end.After(page.UpTo) || w.end == page.UpTo && w.endID != page.UpToID:
		return nil
	case w.end == page.UpTo:
		return w
	}
	next := &window{from: w.from, events: append(w.events, page.Records...), size: w.size, end: page.UpTo, endID: page.UpToID}
	for _, r := range page.Records {
		next.size += sizeOf(r)
	}
	for len(next.events) > feedEvents || next.size > feedBytes {
		next.from = next.events[0].Position
		next.size -= sizeOf(next.events[0])
		next.events = next.events[1:]
	}
	return next
}

// sizeOf is about what a record takes in memory.
func sizeOf(r event.Record) int {
	n := 256 + len(r.Data) + len(r.Type)
	for k, v := range r.Metadata.Custom {
		n += 64 + len(k) + len(v)
	}
	return n
}

// page is what a store would answer that ends where the window does.
func (w *window) page(q consistency.Query, after consistency.Position, limit int) eventstore.Page {
	if limit < 1 {
		limit = feedPage
	}
	page := eventstore.Page{UpTo: w.end, UpToID: w.endID}
	first := sort.Search(len(w.events), func(i int) bool { return w.events[i].Position.After(after) })
	for _, r := range w.events[first:] {
		if !q.Matches(r.Type, r.Data) {
			continue
		}
		if page.Records = append(page.Records, r); len(page.Records) == limit {
			page.UpTo, page.UpToID = r.Position, r.ID
			break
		}
	}
	return page
}
