package projector

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// ErrDiffers: the rebuilt model differs from the live one, and nobody has
// accepted that. The error is a [*DiffersError].
var ErrDiffers = errors.New("the rebuilt model differs from the live one")

// DiffersError lists what differs.
type DiffersError struct {
	Differences []Difference
	Reason      error // of RebuildConfig.Accept; nil: there is none
}

func (e *DiffersError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v, nothing is switched", ErrDiffers)
	if e.Reason != nil {
		fmt.Fprintf(&b, ": %v", e.Reason)
	}
	for _, d := range e.Differences {
		fmt.Fprintf(&b, "; %s: %d only in the live one, %d only in the new one", d.Table, d.Live, d.Next)
		if len(d.Examples) > 0 {
			fmt.Fprintf(&b, ", as %s", d.Examples[0])
		}
	}
	if e.Reason == nil {
		b.WriteString("; where that is what the rebuild is for, say so with Accept")
	}
	return b.String()
}

// Unwrap returns [ErrDiffers] and the reason.
func (e *DiffersError) Unwrap() []error {
	if e.Reason == nil {
		return []error{ErrDiffers}
	}
	return []error{ErrDiffers, e.Reason}
}

// RebuildConfig says how a model is rebuilt. The zero RebuildConfig switches to
// a model that is equal to the live one, and to no other.
type RebuildConfig[Tx any] struct {
	// Tag names what the new model is made with: handlers, schema. A rebuild
	// that was interrupted is resumed by one of the same Tag; what one of another
	// Tag has built is dropped, even while that one runs. At most 200 bytes.
	// Empty means this program: the hash of its executable file.
	Tag string
	// Compare lists the differences between the live model and the new one,
	// while nobody can write to either. Nil means Generation.Compare. A model
	// with another schema needs one of its own.
	Compare func(ctx context.Context, next Generation[Tx]) ([]Difference, error)
	// Accept judges the differences, none included: an error keeps the live
	// model. Nil means that any difference does.
	Accept func([]Difference) error
	// CompareOnly ends the rebuild after that, without a switch. What was built
	// is kept, and the next rebuild of the same Tag goes on with it.
	CompareOnly bool
	// Progress is told how far the rebuild is, on its own goroutine: at most
	// once per Every, and at the end. May be nil.
	Progress func(Progress)
	// Every is the least time between two calls of Progress. Zero means 200 ms.
	Every time.Duration
	// HoldLimit bounds how long writers to the live model wait while the new one
	// catches up for the last time; the comparison comes on top. Where that was
	// not enough they go on, and it is tried again. Zero means 5 s.
	HoldLimit time.Duration
}

func (c RebuildConfig[Tx]) withDefaults() RebuildConfig[Tx] {
	if c.Tag == "" {
		c.Tag = program()
	}
	if c.Every <= 0 {
		c.Every = 200 * time.Millisecond
	}
	if c.HoldLimit <= 0 {
		c.HoldLimit = 5 * time.Second
	}
	if c.Compare == nil {
		c.Compare = func(ctx context.Context, next Generation[Tx]) ([]Difference, error) { return next.Compare(ctx) }
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return c
}

// program tells this executable from others. Where it cannot be read, no
// rebuild is resumed.
var program = sync.OnceValue(func() string {
	other := "another one each time: " + uuid.NewString()
	path, err := os.Executable()
	if err != nil {
		return other
	}
	f, err := os.Open(path)
	if err != nil {
		return other
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return other
	}
	return "program " + hex.EncodeToString(hash.Sum(nil)[:16])
})

// Rebuilt says what a [Rebuild] did.
type Rebuilt struct {
	Switched    bool         // the new model is the live one
	Differences []Difference // that were found, if it came so far
	Events      int64        // that this call went through, of all projectors
	Took        time.Duration
	Held        time.Duration // how long writers to the live model had to wait at the end
}

// Rebuild makes the model of a target anew from the log, in a generation of its
// own beside the live one, and then switches to it in one step. Projectors are
// all that write to the model, made with New on this target: with corrected
// handlers, say. Their workers, here and in other processes, may run all the
// while; readers see the live model until the switch, and workers go on in the
// new one by themselves.
//
// Only what the live model has dealt with is applied, with [Delivery.Replay]: no
// reaction fires for it. What is parked stays parked, and what was discarded
// stays discarded. A rebuild that was interrupted, by ctx or by a crash, goes on
// where it stood when it is called again.
//
// An event that cannot be applied is tried, parked or skipped as its projector's
// Policy says. Where that says Halt, Rebuild ends with a [*HaltedError]. Trouble
// of the store or a target is waited out, as by Run. After any error but one of
// the switch itself nothing is switched, and the live model is as it was.
// [ErrHeld]: another rebuild of the same Tag runs, or one has died and its lease
// is not over. [ErrDiffers]: see [RebuildConfig]. [ErrMisuse] names a projector
// of the model that is missing.
//
// The old generation stays until [Generations.Drop].
func Rebuild[Tx any](ctx context.Context, t Generations[Tx], cfg RebuildConfig[Tx], projectors ...*Projector[Tx]) (done Rebuilt, err error) {
	began := time.Now()
	b := &rebuild[Tx]{live: t, cfg: cfg.withDefaults(), projectors: projectors}
	defer func() { b.done.Took, done = time.Since(began), b.done }()
	if err := b.run(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return b.done, fmt.Errorf("projector: rebuild: %w", err)
	}
	return b.done, nil
}

// rebuild is one call of Rebuild.
type rebuild[Tx any] struct {
	live       Generations[Tx]
	next       Generation[Tx]
	cfg        RebuildConfig[Tx]
	projectors []*Projector[Tx]
	builders   []*builder[Tx]
	meter      meter
	done       Rebuilt
}

var (
	// errLater ends a try to switch: there is more to do than should be done
	// while writers wait.
	errLater = errors.New("live is not held up for this")
	errKept  = errors.New("compared only")
)

func (b *rebuild[Tx]) run(ctx context.Context) error {
	if err := b.check(); err != nil {
		return err
	}
	b.meter = meter{tell: b.cfg.Progress, every: b.cfg.Every}
	for _, p := range b.projectors {
		b.builders = append(b.builders, newBuilder(b, p))
	}
	first := b.builders[0]
	err := first.keepTrying(ctx, "the target's names cannot be read", func() error { return b.covers(ctx) })
	if err == nil {
		err = first.keepTrying(ctx, "the target opens no new generation", func() (err error) {
			b.next, err = b.live.Next(ctx, b.cfg.Tag)
			return err
		})
	}
	if err != nil {
		return err
	}
	defer func() {
		if err := b.next.Close(); err != nil {
			first.reports.warn("the new generation cannot be closed", err)
		}
	}()
	for _, w := range b.builders {
		defer w.giveBack(ctx)
		if err := w.open(ctx, b.next); err != nil {
			return err
		}
	}
	for {
		if err := b.approach(ctx); err != nil {
			return err
		}
		switch err := b.finish(ctx); {
		case err == nil:
			b.meter.last(Switched)
			first.reports.ok("rebuilt: the new generation is live", "tag", b.cfg.Tag, "events", b.done.Events)
			return nil
		case errors.Is(err, errKept):
			b.meter.last(Compared)
			return nil
		case errors.Is(err, ErrTakenOver):
			if err := b.reopen(ctx); err != nil {
				return err
			}
		case !errors.Is(err, errLater):
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil { // for those that waited
			return err
		}
	}
}

// check finds what no rebuild can be made with.
func (b *rebuild[Tx]) check() error {
	if isNil(b.live) {
		return fmt.Errorf("%w: the target is nil", ErrMisuse)
	}
	if len(b.cfg.Tag) > maxName || !utf8.ValidString(b.cfg.Tag) || strings.ContainsRune(b.cfg.Tag, 0) {
		return fmt.Errorf("%w: RebuildConfig.Tag %.80q: use at most %d bytes of UTF-8 without U+0000", ErrMisuse, b.cfg.Tag, maxName)
	}
	if len(b.projectors) == 0 {
		return fmt.Errorf("%w: no projector is given: give all that write to the model", ErrMisuse)
	}
	names := map[Name]bool{}
	for _, p := range b.projectors {
		switch {
		case p == nil:
			return fmt.Errorf("%w: a projector is nil", ErrMisuse)
		case p.misuse != nil:
			return p.misuse
		case !same(p.target, b.live):
			return fmt.Errorf("%w: projector %s has another target: make it with New on the one that is rebuilt", ErrMisuse, p.name)
		case names[p.name]:
			return fmt.Errorf("%w: projector %s is given twice", ErrMisuse, p.name)
		}
		names[p.name] = true
	}
	return nil
}

// same says whether two targets are one value.
func same(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// covers looks for names of the live generation that would be lost.
func (b *rebuild[Tx]) covers(ctx context.Context) error {
	names, err := b.live.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		missing := true
		for _, p := range b.projectors {
			missing = missing && p.name != name
		}
		if missing {
			return fmt.Errorf("%w: projector %s writes to the model too: give all that do, or its part would be lost", ErrMisuse, name)
		}
	}
	return nil
}

// approach builds until little is left to do.
func (b *rebuild[Tx]) approach(ctx context.Context) error {
	const few, soon = 100, 250 * time.Millisecond
	for {
		began, before := time.Now(), b.done.Events
		for _, w := range b.builders {
			err := w.advance(ctx)
			if errors.Is(err, ErrTakenOver) {
				err = b.reopen(ctx)
			}
			if err != nil {
				return err
			}
		}
		if b.done.Events-before <= few || time.Since(began) <= soon {
			return nil
		}
	}
}

// reopen claims anew what is lost. A batch whose answer never came may have
// landed late; but it may also be that another rebuild is at it.
func (b *rebuild[Tx]) reopen(ctx context.Context) error {
	for _, w := range b.builders {
		w.giveBack(ctx)
		if err := w.open(ctx, b.next); err != nil {
			return err
		}
	}
	return nil
}

// finish holds the live generation, does what is left, and switches.
func (b *rebuild[Tx]) finish(ctx context.Context) error {
	var said error
	asked := false
	began := time.Now()
	err := b.next.Switch(ctx, func(ctx context.Context) error {
		asked = true
		began = time.Now()
		said = b.ready(ctx)
		return said
	})
	b.done.Held += time.Since(began)
	switch {
	case err == nil:
		b.done.Switched = true
		return nil
	case asked && said != nil:
		return said
	case asked:
		return fmt.Errorf("it is open which generation is live now: rebuild again: %w", err)
	}
	if err := b.builders[0].trouble(ctx, "the target does not switch", err); err != nil {
		if errors.Is(err, ErrClosed) {
			err = fmt.Errorf("another rebuild has switched or has begun another generation: %w", err)
		}
		return err
	}
	return errLater
}

// arrive brings all to where live is, if that does not take too long.
func (b *rebuild[Tx]) arrive(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, b.cfg.HoldLimit)
	defer cancel()
	// A projector may have come while we built.
	err := b.builders[0].keepTrying(limited, "the target's names cannot be read", func() error { return b.covers(limited) })
	for i := 0; i < len(b.builders) && err == nil; i++ {
		err = b.builders[i].arrive(limited)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return errLater
	}
	return err
}

// ready does what is left. Nobody commits to the live generation meanwhile.
func (b *rebuild[Tx]) ready(ctx context.Context) error {
	if err := b.arrive(ctx); err != nil {
		return err
	}
	b.meter.last(Comparing)
	differences, err := b.cfg.Compare(ctx, b.next)
	if err != nil {
		return fmt.Errorf("compare the new generation with the live one: %w", err)
	}
	b.done.Differences = differences
	switch {
	case b.cfg.Accept != nil:
		if err := b.cfg.Accept(differences); err != nil {
			return &DiffersError{differences, err}
		}
	case len(differences) > 0:
		return &DiffersError{differences, nil}
	}
	if b.cfg.CompareOnly {
		return errKept
	}
	return nil
}
