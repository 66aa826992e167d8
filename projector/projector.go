package projector

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// Handler applies one event to the read model through tx. It returns nil only
// if the event is dealt with, for good: an event that is none of its business is.
//
// Events come in the order of the log, one at a time. Where the target has
// transactions, nothing of a handler that returns an error or panics stays, and
// an event that was applied never comes again; but a handler may run again for
// an event whose transaction was rolled back, so what it does outside tx may be
// done twice. ctx ends with the projector's Run; a handler that does not heed it
// holds Run up. tx ends with the batch and must not be kept.
type Handler[Tx any] func(ctx context.Context, tx Tx, d Delivery) error

// Delivery is an event as a handler gets it.
type Delivery struct {
	event.Record
	// Event is the record, decoded by the codec of the [Config].
	Event event.Event
	// Attempt counts the tries of this event from 1, those before a restart
	// included.
	Attempt int
	// Replay says that the event was applied before, to the generation of the
	// model that a [Rebuild] replaces: what goes beyond the model (a command, a
	// mail) must not be done again. Reactions heed it by themselves.
	Replay bool
}

// Config says what is projected, under which name and how. Name and Events are
// needed; every other field has a default that is ready for production.
type Config struct {
	// Name is what the checkpoint is kept under: one name per read model. It is
	// a storage format; with another name the model is built anew. Needed.
	Name string
	// Boundary names the log, for targets that take events of several. Empty
	// means "default".
	Boundary string
	// Events decodes what is read. Needed.
	Events *event.Codec
	// Query narrows what the handler gets. The zero Query means every type of
	// Events, under all its names. An event that Query meets and Events does
	// not know is an error: it halts the projector.
	Query consistency.Query

	// BatchSize is how many events go into one transaction at most. Zero means
	// 500.
	BatchSize int
	// BatchTime is how long a transaction goes on taking events; the handler
	// that runs then still ends. Zero means 50 ms.
	BatchTime time.Duration

	// Failures says what becomes of an event that cannot be applied. The zero
	// Policy tries it ten times and halts.
	Failures Policy
	// Keys says which events must stay in order: those that have a key in
	// common. [Park] and Lanes need it. See [DataKeys].
	Keys Keys
	// Lanes is how many events are applied side by side, in order within each
	// key; those without a key are in order among themselves. The target has to
	// be a [LaneTarget]. Zero and one mean one after the other.
	Lanes int

	// Poll is how long the projector trusts that nothing happened when the
	// store gave no hint. Zero means 5 s.
	Poll time.Duration
	// WaitLimit bounds a WaitFor whose context has no deadline. Zero means 10 s.
	WaitLimit time.Duration
	// StallAfter is how long the projector may stand still although there is
	// work before its log and [Projector.Health] say so. Zero means 1 min.
	StallAfter time.Duration
	// ReportEvery is the least time between two reports of the same trouble;
	// what happens in between is counted. Zero means 1 min.
	ReportEvery time.Duration
	// Logger gets the reports. Nil means that they are discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	duration := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	number := func(n *int, to int) {
		if *n <= 0 {
			*n = to
		}
	}
	if c.Boundary == "" {
		c.Boundary = "default"
	}
	number(&c.BatchSize, 500)
	duration(&c.BatchTime, 50*time.Millisecond)
	number(&c.Failures.Attempts, 10)
	number(&c.Failures.MaxParked, 10_000)
	duration(&c.Failures.FirstDelay, 100*time.Millisecond)
	duration(&c.Failures.MaxDelay, 10*time.Second)
	duration(&c.Failures.HaltRetry, 30*time.Second)
	if c.Failures.Then == "" {
		c.Failures.Then = Halt
	}
	number(&c.Lanes, 1)
	duration(&c.StallAfter, time.Minute)
	duration(&c.Poll, 5*time.Second)
	duration(&c.WaitLimit, 10*time.Second)
	duration(&c.ReportEvery, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("projector", c.Name, "boundary", c.Boundary)
	return c
}

// Projector brings the events of a log into a read model. It holds no state of
// its own: all that it knows is in the log and in the target. Its methods may be
// called by any number of goroutines; two Runs at once are two replicas.
type Projector[Tx any] struct {
	store   eventstore.Store
	target  Target[Tx]
	cfg     Config // with defaults
	handler Handler[Tx]
	name    Name
	query   consistency.Query
	log     eventstore.Features
	misuse  error
}

// New makes a projector; [Projector.Run] starts it. Store and target stay the
// caller's to close, after Run has returned.
//
// A projector that cannot work as it is set up (no name, no codec, a query for a
// key that no event type has as a string) says so with [ErrMisuse] from each of
// its methods, at once: so the program that sets it up needs no error of New.
func New[Tx any](s eventstore.Store, t Target[Tx], cfg Config, h Handler[Tx]) *Projector[Tx] {
	p := &Projector[Tx]{store: s, target: t, cfg: cfg.withDefaults(), handler: h}
	p.name = Name{Projector: p.cfg.Name, Boundary: p.cfg.Boundary}
	var err error
	if p.query, err = p.setUp(); err != nil {
		p.misuse = fmt.Errorf("projector %s: %w: %w", p.name, ErrMisuse, err)
		return p
	}
	p.log = s.Features()
	return p
}

func (p *Projector[Tx]) setUp() (consistency.Query, error) {
	for _, name := range []string{p.name.Projector, p.name.Boundary} {
		if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			return consistency.Query{}, fmt.Errorf("name %.80q: Config.Name and Config.Boundary are 1 to %d bytes of UTF-8 without U+0000", name, maxName)
		}
	}
	switch {
	case isNil(p.store):
		return consistency.Query{}, fmt.Errorf("the store is nil")
	case isNil(p.target):
		return consistency.Query{}, fmt.Errorf("the target is nil")
	case p.handler == nil:
		return consistency.Query{}, fmt.Errorf("the handler is nil")
	case p.cfg.Failures.Then != Halt && p.cfg.Failures.Then != Park && p.cfg.Failures.Then != Skip:
		return consistency.Query{}, fmt.Errorf("Config.Failures.Then is %q: use Halt, Park or Skip", p.cfg.Failures.Then)
	case p.cfg.Failures.Then == Park && p.cfg.Keys == nil:
		return consistency.Query{}, fmt.Errorf("Config.Failures.Then is Park and Config.Keys is nil: say which events wait behind a parked one")
	case p.cfg.Lanes > 1 && p.cfg.Keys == nil:
		return consistency.Query{}, fmt.Errorf("Config.Lanes is %d and Config.Keys is nil: say which events must stay in order", p.cfg.Lanes)
	case p.cfg.Lanes > 1 && !isLaneTarget(p.target):
		return consistency.Query{}, fmt.Errorf("Config.Lanes is %d and %T applies one transaction after the other: leave Lanes zero, or use a target that is a LaneTarget", p.cfg.Lanes, p.target)
	case p.cfg.Events == nil:
		return consistency.Query{}, fmt.Errorf("Config.Events is nil: give the codec of the events")
	case !p.cfg.Query.IsZero():
		return p.cfg.Events.Query(p.cfg.Query)
	}
	types := p.cfg.Events.Types()
	if len(types) == 0 {
		return consistency.Query{}, fmt.Errorf("Config.Events has no event types")
	}
	return p.cfg.Events.Query(consistency.All().Type(types...))
}

func isLaneTarget[Tx any](t Target[Tx]) bool {
	_, ok := t.(LaneTarget[Tx])
	return ok
}

// maxName bounds the parts of a Name, so that every target can keep them.
const maxName = 200

// isNil finds nil pointers inside interfaces too: the usual result of an Open
// whose error was passed over.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
