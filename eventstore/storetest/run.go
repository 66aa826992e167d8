package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/eventstore"
)

// Features says what the stores under test can do. The zero value is a store
// in memory.
type Features struct {
	// Durable says that a log that was closed and is opened again under the
	// same name is the same log.
	Durable bool
	// SecondHandle says that a log can be open twice at once, as it is where
	// two processes work on it.
	SecondHandle bool
	// FloatNumbers says that JSON numbers beyond 2^53 lose digits in a server
	// on the way. Strings never do.
	FloatNumbers bool
	// NamedTypesOnly says that the store refuses observations of every event
	// ([consistency.All]) as invalid, where a server cannot be asked that.
	// Queries that name a type or a tag it checks.
	NamedTypesOnly bool
	// ScalarsMatch says that a server matches what is not a string by its text,
	// and that the store answers such a match with an error.
	ScalarsMatch bool

	// Rounds is how often each race is run. Zero means 100, and 10 with
	// -short.
	Rounds int
	// Timeout bounds each case. Zero means 2 minutes.
	Timeout time.Duration
	// Seed is what random cases begin with. Zero means a new one each time.
	Seed uint64
	// Skip names cases that the store cannot pass, each with the reason.
	Skip map[string]string
}

// Case is one demand on a store.
type Case struct {
	Name   string // also the name of the log it opens
	Proves string // in one sentence

	skip func(Features) string // why not here, or empty; nil: always runs
	run  func(*env)
}

// Cases lists the suite.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		appendCases, limitCases, identityCases, honestyCases, observationCases, queryCases, contentCases,
		snapshotCases, momentCases, pageCases, waitCases, raceCases, handleCases, propertyCases,
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs every case as a subtest of t. What open returns is closed by the
// suite.
func Run(t *testing.T, f Features, open func(name string) (eventstore.Store, error)) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if why := c.skipped(f); why != "" {
				t.Skip(why)
			}
			switch err := c.try(t.Context(), f, open); {
			case errors.Is(err, errNotPromised):
				t.Skip(err)
			case err != nil:
				t.Fatal(err)
			}
		})
	}
}

// Check runs every case and returns what failed, joined; each error names its
// case.
func Check(f Features, open func(name string) (eventstore.Store, error)) error {
	var failed []error
	for _, c := range Cases() {
		if c.skipped(f) != "" {
			continue
		}
		if err := c.try(context.Background(), f, open); !errors.Is(err, errNotPromised) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (c Case) skipped(f Features) string {
	if why, ok := f.Skip[c.Name]; ok {
		return "the store cannot: " + why
	}
	if c.skip != nil {
		return c.skip(f)
	}
	return ""
}

// errNotPromised ends a case about what the store's own Features do not promise.
var errNotPromised = errors.New("the store does not promise it")

// failure is what a case panics with, to leave from wherever it is.
type failure struct{ error }

// try runs one case. A call that ignores the end of its context is left behind
// after a while, so that it is named and does not stop the suite.
func (c Case) try(ctx context.Context, f Features, open func(string) (eventstore.Store, error)) error {
	if f.Timeout == 0 {
		f.Timeout = 2 * time.Minute
	}
	if f.Rounds == 0 {
		if f.Rounds = 100; testing.Testing() && testing.Short() {
			f.Rounds = 10
		}
	}
	if f.Seed == 0 {
		f.Seed = rand.Uint64()
	}
	e := &env{f: f, name: c.Name, opener: open, rng: rand.New(rand.NewPCG(f.Seed, 0))}
	e.ctx, e.cancel = context.WithTimeout(ctx, f.Timeout)
	defer e.cancel()
	done := make(chan error, 1)
	go func() {
		err := e.guard(func() { c.run(e) })
		done <- errors.Join(err, e.closeAll())
	}()
	grace := time.NewTimer(f.Timeout + 10*time.Second)
	defer grace.Stop()
	var err error
	select {
	case err = <-done:
	case <-grace.C:
		err = errors.New("a call did not end after its context had ended")
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("storetest: case %s: %w (the case proves: %s)", c.Name, err, c.Proves)
}

// env is what a case runs in.
type env struct {
	ctx    context.Context
	cancel context.CancelFunc
	f      Features
	name   string
	opener func(string) (eventstore.Store, error)
	rng    *rand.Rand

	mu     sync.Mutex
	opened []eventstore.Store
}

// guard returns the failure that f panicked with.
func (e *env) guard(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}

func (e *env) failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// need fails the case if err is not nil.
func (e *env) need(err error, format string, args ...any) {
	if err != nil {
		e.failf("%s: %w", fmt.Sprintf(format, args...), err)
	}
}

// together runs f n times at once and waits for all. The first failure ends
// the others' context, and then the case.
func (e *env) together(n int, f func(i int)) {
	var all sync.WaitGroup
	begin, failed := make(chan struct{}), make(chan error, n)
	for i := range n {
		all.Go(func() {
			<-begin
			if err := e.guard(func() { f(i) }); err != nil {
				failed <- err
				e.cancel()
			}
		})
	}
	close(begin)
	all.Wait()
	select {
	case err := <-failed:
		panic(failure{err})
	default:
	}
}

// open opens the log of the case.
func (e *env) open() eventstore.Store { return e.openNamed(e.name) }

func (e *env) openNamed(name string) eventstore.Store {
	s, err := e.opener(name)
	e.need(err, "open %s", name)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = append(e.opened, s)
	return s
}

func (e *env) closeAll() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, s := range e.opened {
		if err := s.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close: %w", err))
		}
	}
	return errors.Join(errs...)
}
