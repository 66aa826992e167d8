package targettest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/projector"
)

// Subject is the target under test, and how the suite writes into it.
type Subject[Tx any] struct {
	// Open opens the target that is kept under a name, and makes it the first
	// time. Each case uses names of its own. The names are plain letters, digits
	// and '-', so they may be file names.
	Open func(name string) (projector.Target[Tx], error)
	// Close ends a target's work. Nil: there is nothing to close.
	Close func(projector.Target[Tx]) error
	// Put sets a text in the model, as a handler does.
	Put func(tx Tx, key, value string) error
	// Get reads what the transaction sees under the key.
	Get func(tx Tx, key string) (value string, found bool, err error)
	// Read reads what is committed under the key, as a reader of the model does;
	// of a projector.Generation, what is committed there.
	Read func(target projector.Target[Tx], key string) (value string, found bool, err error)
	// Freeze keeps the owner of the name, which claimed it through this target,
	// from renewing its lease, as a process that stands still would. Nil: the
	// cases of the lease are left out.
	Freeze func(target projector.Target[Tx], name projector.Name)
}

// Features is what the target can do. The zero value asks for the least.
type Features struct {
	// Durable: what is committed is there when the target is opened again.
	Durable bool
	// Shared: a target that is open may be opened a second time under the same
	// name, and both serve the same data, as two processes would.
	Shared bool
	// Lease is how long a frozen owner holds a name. It is waited for, so make
	// it short, or Virtual. Zero means 10 s.
	Lease time.Duration
	// WriterBlocks: a transaction that stands still keeps others from claiming
	// and writing for as long as it stands (a file with one writer).
	WriterBlocks bool
	// Virtual runs each case in a bubble of testing/synctest, where waits take
	// no time. Only for targets that wait on nothing outside the process.
	// [Check] cannot and takes the time.
	Virtual bool
}

// caseLimit ends a case that hangs.
const caseLimit = time.Minute

// Run tests the target, each promise in a subtest.
func Run[Tx any](t *testing.T, f Features, s Subject[Tx]) {
	for _, k := range cases[Tx]() {
		t.Run(k.name, func(t *testing.T) {
			if why := k.skip(f, s); why != "" {
				t.Skip(why)
			}
			run := func(t *testing.T) {
				err := runCase(f, s, k)
				var why skipped
				switch {
				case errors.As(err, &why):
					t.Skip(why)
				case err != nil:
					t.Error(err)
				}
			}
			if f.Virtual {
				synctest.Test(t, run)
			} else {
				run(t)
			}
		})
	}
}

// Check runs the cases of [Run] and returns one error that holds every failure.
func Check[Tx any](f Features, s Subject[Tx]) error {
	var failed []error
	for _, k := range cases[Tx]() {
		if k.skip(f, s) != "" {
			continue
		}
		var why skipped
		if err := runCase(f, s, k); err != nil && !errors.As(err, &why) {
			failed = append(failed, fmt.Errorf("%s: %w", k.name, err))
		}
	}
	return errors.Join(failed...)
}

type testCase[Tx any] struct {
	name  string
	needs need
	run   func(*env[Tx])
}

type need int

const (
	durable need = 1 << iota
	shared
	lease
	closes
	freeWriter
)

func (k testCase[Tx]) skip(f Features, s Subject[Tx]) string {
	switch {
	case k.needs&durable != 0 && !f.Durable:
		return "the target is not durable"
	case k.needs&shared != 0 && !f.Shared:
		return "the target is opened once"
	case k.needs&lease != 0 && s.Freeze == nil:
		return "there is no way to freeze an owner"
	case k.needs&closes != 0 && s.Close == nil:
		return "there is nothing to close"
	case k.needs&freeWriter != 0 && f.WriterBlocks:
		return "a writer that stands still blocks others"
	}
	return ""
}

// env is what a case works with.
type env[Tx any] struct {
	Subject[Tx]
	f      Features
	name   string
	ctx    context.Context
	opened []projector.Target[Tx]

	building []projector.Generation[Tx]
}

// failure is what a case panics with.
type failure struct{ error }

// skipped is what a case panics with that the target has nothing for.
type skipped string

func (s skipped) Error() string { return string(s) }

func runCase[Tx any](f Features, s Subject[Tx], k testCase[Tx]) error {
	ctx, cancel := context.WithTimeout(context.Background(), caseLimit)
	defer cancel()
	if f.Lease <= 0 {
		f.Lease = 10 * time.Second
	}
	done := make(chan error, 1)
	go func() {
		c := &env[Tx]{Subject: s, f: f, name: k.name, ctx: ctx}
		err := protect(func() { k.run(c) })
		done <- errors.Join(err, protect(c.closeAll))
	}()
	hung := time.NewTimer(2 * caseLimit)
	defer hung.Stop()
	select {
	case err := <-done:
		return err
	case <-hung.C:
		return fmt.Errorf("the case hangs: a call does not return although its context ended")
	}
}

// protect turns a case's failure, and any other panic, into an error.
func protect(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		case skipped:
			err = r
		default:
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}
