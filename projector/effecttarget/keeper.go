package effecttarget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cccgo/ccc/projector"
)

// Keeper is where the bookkeeping lives: one document for each name, of some
// kilobytes as a rule, which a Keeper need not understand. [File] is one; a table
// of your own is another, in some twenty lines (see the example). A Keeper is
// used by several goroutines at once, and by as many processes as share what is
// behind it. It does not try again by itself.
type Keeper interface {
	// Load returns the document of a name and its version: nil and 0 if it was
	// never saved. It is called often while somebody waits. now is the time by
	// the one clock that all processes share, a database's own for example:
	// leases run out by it.
	Load(ctx context.Context, name projector.Name) (doc []byte, version int64, now time.Time, err error)

	// Save exchanges the document if its version is still the given one, and
	// gives it the next, version+1; at version 0 it makes it. It is durable when
	// Save returns nil. [ErrChanged] if it has another version by now. After any
	// other error it is open whether it was saved, or will be.
	Save(ctx context.Context, name projector.Name, doc []byte, version int64) error
}

// ErrChanged is a [Keeper]'s answer to a save of a document that somebody else
// has saved since it was loaded.
var ErrChanged = errors.New("the document was changed by another one")

// Memory makes a Keeper that forgets everything with the process: for tests, in
// virtual time too. With it a restart begins at the first event again, and every
// effect is repeated.
func Memory() Keeper { return &memory{docs: map[projector.Name]kept{}} }

type memory struct {
	mu   sync.Mutex
	docs map[projector.Name]kept
}

type kept struct {
	doc     []byte
	version int64
}

func (m *memory) Load(ctx context.Context, name projector.Name) ([]byte, int64, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.docs[name]
	return slices.Clone(k.doc), k.version, time.Now(), ctx.Err()
}

func (m *memory) Save(ctx context.Context, name projector.Name, doc []byte, version int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.docs[name].version != version:
		return ErrChanged
	}
	m.docs[name] = kept{slices.Clone(doc), version + 1}
	return nil
}
