package effecttarget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
)

// saveLimit bounds the work of a group of changes, their loads and saves.
const saveLimit = 10 * time.Second

// cell is a name as one Target has it. All changes of its document go through
// it, so that those that come together are one save.
type cell struct {
	name   projector.Name
	keeper Keeper
	work   context.Context // ends when the Target does
	saves  *sync.WaitGroup // of the goroutines that save

	mu      sync.Mutex // held for moments only, never during a load or a save
	doc     *document  // as it is kept, or is to be by the save under way; nil: not known
	version int64      // of doc, as it was loaded or saved last
	clock   clock
	owed    []*ops // what was done, where the save failed that was to keep it

	queue  []*change
	saving bool          // a goroutine saves
	open   int           // batches whose work runs
	came   chan struct{} // something came into the queue, or a batch ended
	took   time.Duration // the last save

	turn      chan struct{} // one Apply of a claim at a time
	turnEpoch int64

	seen    snapshot
	changed chan struct{} // closed at the next change by this Target
}

func newCell(work context.Context, saves *sync.WaitGroup, k Keeper, name projector.Name) *cell {
	return &cell{work: work, saves: saves, keeper: k, name: name, came: make(chan struct{}, 1), changed: make(chan struct{})}
}

// change is one step of a document. It may be taken several times, for documents
// that others have changed meanwhile, until it is saved.
type change struct {
	do    func(d *document, now time.Time) (changed bool, err error)
	fresh bool // the document is loaded for it
	batch bool // it comes from a batch, which waits for it

	taken bool
	done  chan error // one answer, then closed
}

// submit has a change saved and returns when it is. ctx ends the wait: whether it
// is saved is open then, except for one that was not begun.
func (c *cell) submit(ctx context.Context, ch *change) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ch.done = make(chan error, 1)
	c.mu.Lock()
	c.queue = append(c.queue, ch)
	if !c.saving {
		c.saving = true
		c.saves.Go(c.save)
	}
	c.mu.Unlock()
	c.nudge()
	select {
	case err := <-ch.done:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ch.taken {
		c.queue = slices.DeleteFunc(c.queue, func(q *change) bool { return q == ch })
		return fmt.Errorf("nothing changed: %w", context.Cause(ctx))
	}
	select {
	case err := <-ch.done:
		return err
	default:
		return fmt.Errorf("it is not known what was saved: %w", context.Cause(ctx))
	}
}

// save works the queue off.
func (c *cell) save() {
	for {
		c.gather()
		c.mu.Lock()
		group := c.queue
		c.queue = nil
		if len(group) == 0 {
			c.saving = false
			c.mu.Unlock()
			return
		}
		for _, ch := range group {
			ch.taken = true
		}
		c.commit(group)
		c.mu.Unlock()
	}
}

// commit makes one save of a group of changes. It is called with mu, and gives
// it up while the keeper works.
func (c *cell) commit(group []*change) {
	ctx, cancel := context.WithTimeout(c.work, saveLimit)
	defer cancel()
	if slices.ContainsFunc(group, func(ch *change) bool { return ch.fresh }) {
		c.doc = nil
	}
	for {
		fresh := c.doc == nil
		if fresh {
			if err := c.load(ctx); err != nil {
				answer(group, func(int) error { return err })
				return
			}
		}
		errs, changed, refused := c.take(group)
		if refused && !fresh {
			c.doc = nil // refused by what may be old
			continue
		}
		var err error
		if changed {
			err = c.keep(ctx)
		}
		if errors.Is(err, ErrChanged) && ctx.Err() == nil {
			continue
		}
		answer(group, func(i int) error {
			if errs[i] != nil {
				return errs[i]
			}
			return err
		})
		return
	}
}

func answer(group []*change, err func(i int) error) {
	for i, ch := range group {
		ch.done <- err(i)
		close(ch.done)
	}
}

func (c *cell) take(group []*change) (errs []error, changed, refused bool) {
	errs, changed = make([]error, len(group)), len(c.owed) > 0
	for i, ch := range group {
		did, err := ch.do(c.doc, c.clock.now())
		errs[i], changed, refused = err, changed || did && err == nil, refused || err != nil
	}
	return errs, changed, refused
}

// load reads the document, and adds what is owed to it.
func (c *cell) load(ctx context.Context) error {
	c.mu.Unlock()
	asked := time.Now()
	text, version, now, err := c.keeper.Load(ctx, c.name)
	var d *document
	if err == nil {
		d, err = decode(c.name, text)
	}
	c.mu.Lock()
	if err != nil {
		return err
	}
	c.doc, c.version, c.clock = d, version, clock{now, asked}
	c.owed = slices.DeleteFunc(c.owed, func(o *ops) bool { return !d.held || d.epoch != o.epoch })
	for _, o := range c.owed {
		d.pay(o, now)
	}
	return nil
}

// keep saves the document as it is.
func (c *cell) keep(ctx context.Context) error {
	text, err := c.doc.encode()
	if err != nil {
		c.doc = nil
		return err
	}
	version, owed, seen := c.version, len(c.owed), c.snapshot()
	seen.version++
	seen.text = string(text)
	c.mu.Unlock()
	began := time.Now()
	err = c.keeper.Save(ctx, c.name, text, version)
	took := time.Since(began)
	c.mu.Lock()
	c.took = took
	if err != nil {
		c.doc = nil // it may be there or not, or come yet
		return err
	}
	c.version = version + 1
	c.owed = c.owed[owed:]
	c.show(seen)
	return nil
}

// view reads the document for a claim. As long as the claim's lease runs nobody
// else moves it; afterwards each view is a load.
func (c *cell) view(ctx context.Context, claim projector.Claim, f func(d *document) error) error {
	check := func(d *document) error {
		if err := d.ours(claim); err != nil {
			return err
		}
		return f(d)
	}
	c.mu.Lock()
	if d := c.doc; d != nil && d.ours(claim) == nil && d.live(c.clock.now()) {
		defer c.mu.Unlock()
		return f(d)
	}
	c.mu.Unlock()
	return c.submit(ctx, &change{fresh: true, do: func(d *document, _ time.Time) (bool, error) { return false, check(d) }})
}

// owe keeps in mind what could not be kept, so that this process does not do it
// twice.
func (c *cell) owe(o *ops) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = append(c.owed, o)
	c.doc = nil
}

// clock is the keeper's, carried on by this machine's.
type clock struct{ is, read time.Time }

// now is not before the keeper's: a lease that runs by it runs there. The two
// kinds of time differ after the machine slept.
func (c clock) now() time.Time {
	now := time.Now()
	return c.is.Add(max(now.Sub(c.read), now.Round(0).Sub(c.read.Round(0)), 0))
}
