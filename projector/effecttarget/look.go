package effecttarget

import (
	"context"
	"time"

	"github.com/cccgo/ccc/projector"
)

// snapshot is what was kept at a moment.
type snapshot struct {
	state   projector.State // without Held
	held    bool
	until   time.Time
	version int64
	text    string // of the document, if it was loaded
	clock   clock
	read    bool
}

func (s snapshot) now() projector.State {
	state := s.state
	state.Held = s.held && s.clock.now().Before(s.until)
	return state
}

// snapshot is of the document as it is. It is called with mu.
func (c *cell) snapshot() snapshot {
	return snapshot{state: c.doc.state(), held: c.doc.held, until: c.doc.until, version: c.version, clock: clock{c.clock.now(), time.Now()}, read: true}
}

// show makes a saved snapshot known. It is called with mu.
func (c *cell) show(s snapshot) {
	c.seen = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// look reads what is kept, by whomever.
func (c *cell) look(ctx context.Context) (projector.State, error) {
	asked := time.Now()
	text, version, now, err := c.keeper.Load(ctx, c.name)
	if err != nil {
		return projector.State{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seen
	if s.version > version && s.clock.read.After(asked) {
		return s.now(), nil // a save of ours came after the load
	}
	if !s.read || s.version != version || s.text != string(text) {
		d, err := decode(c.name, text)
		if err != nil {
			return projector.State{}, err
		}
		s = snapshot{state: d.state(), held: d.held, until: d.until, version: version, text: string(text), read: true}
	}
	s.clock = clock{now, asked}
	c.met(version)
	if version >= c.seen.version {
		c.seen = s
	}
	return s.now(), nil
}

// met has the document loaded again if others have been there: a batch must not
// see less than what State and Parked have shown. A save under way finds that out
// by itself. It is called with mu.
func (c *cell) met(version int64) {
	if version != c.version && !c.saving {
		c.doc = nil
	}
}

// glance is a look that may be as old as a time.
func (c *cell) glance(ctx context.Context, age time.Duration) (projector.State, error) {
	c.mu.Lock()
	s := c.seen
	c.mu.Unlock()
	if s.read && time.Since(s.clock.read) < age {
		return s.now(), nil
	}
	return c.look(ctx)
}

// next is closed at the next change by this Target.
func (c *cell) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}
