package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/examples/internal/stores"
	"github.com/cccgo/ccc/projector"
	"github.com/cenkalti/backoff/v4"
)

// options are the program's flags.
type options struct {
	store    string
	workers  int
	results  string // empty: not wanted
	balances string // the same
	files    []string

	open func(context.Context, place) (eventstore.Store, error)
}

// place is where the data is.
type place struct {
	stores.Place
	model string // file of the read model; empty: in memory
}

func placeOf(store string) (p place, err error) {
	if p.Place, err = stores.Parse(store); err == nil && p.Beside != "" {
		p.model = p.Beside + ".balances"
	}
	return p, err
}

func (p place) String() string {
	if p.model == "" {
		return "in memory, gone now"
	}
	return fmt.Sprintf("%s (log), %s (read model)", p.Name, p.model)
}

// files are all that may lie at a place.
func (p place) files() (names []string) {
	for _, name := range []string{p.File, p.model} {
		if name != "" {
			names = append(names, name, name+"-wal", name+"-shm", name+"-journal")
		}
	}
	return names
}

// ledger is the program at work.
type ledger struct {
	place   place
	store   eventstore.Store
	model   readModel
	runner  *command.Runner
	workers int
}

func openStore(ctx context.Context, p place) (eventstore.Store, error) {
	return p.Open(ctx, events)
}

// newLedger takes over the store, also where it fails.
func newLedger(ctx context.Context, store eventstore.Store, p place, workers int, stderr io.Writer) (_ *ledger, err error) {
	runner := command.NewRunner(store, command.Config{})
	l := &ledger{place: p, store: store, workers: workers, runner: runner}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if l.model, err = openModel(store, p, logger); err != nil {
		return nil, fmt.Errorf("the read model of %s: %w", p.Name, err)
	}
	if err := l.model.Check(ctx); err != nil { // before anything is written
		return nil, p.foreign(err)
	}
	return l, nil
}

func (l *ledger) close() (err error) {
	if l.model != nil {
		err = l.model.close()
	}
	return errors.Join(err, l.store.Close())
}

// process gives every line its answer, and then the balances when they show the
// last of them. Both are called in order, by one goroutine.
func (l *ledger) process(ctx context.Context, in *input, answered func(line, result) error, balance func(account string, balance int64) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	projected := make(chan struct{})
	go func() {
		defer close(projected)
		if err := l.model.Run(ctx); err != nil {
			cancel(l.place.foreign(err))
		}
	}()
	defer func() { <-projected }()
	defer cancel(nil)

	var last consistency.Position
	s := schedule{
		workers: l.workers,
		run: func(ctx context.Context, of line) (result, error) {
			return runLine(ctx, l.runner, of)
		},
		emit: func(of line, r result) error {
			if r.at.After(last) {
				last = r.at
			}
			return answered(of, r)
		},
	}
	if err := s.do(ctx, in.lines()); err != nil {
		return err
	}
	if err := l.catchUp(ctx, last); err != nil {
		return err
	}
	return l.model.each(ctx, balance)
}

// stillness is how long the read model may stand still before the ledger gives
// up: longer than the lease of another process that is frozen.
const stillness = 30 * time.Second

// catchUp waits until the read model shows everything up to a position, and all
// that was in the log when it is called: a file may have been answered without
// one position, by a model that was deleted.
func (l *ledger) catchUp(ctx context.Context, last consistency.Position) error {
	before, err := l.lag(ctx)
	if err != nil {
		return err
	}
	if before.Head.After(last) {
		last = before.Head
	}
	for {
		waiting, cancel := context.WithTimeout(ctx, stillness)
		err := l.model.WaitFor(waiting, last)
		cancel()
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now, lagErr := l.lag(ctx)
		if lagErr != nil || now.Checkpoint == before.Checkpoint {
			return fmt.Errorf("the balances cannot be shown: %w", l.place.foreign(err))
		}
		before = now
	}
}

// lag asks again where the log cannot be read just now.
func (l *ledger) lag(ctx context.Context) (projector.Lag, error) {
	again := backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithMaxElapsedTime(stillness)), ctx)
	return backoff.RetryWithData(func() (projector.Lag, error) {
		lag, err := l.model.Lag(ctx)
		if err != nil && eventstore.KindOf(err) != eventstore.NotApplied {
			err = backoff.Permanent(err)
		}
		return lag, err
	}, again)
}

// apart says that no output is a file that is read, or that the data is in.
func apart(p place, in *input, outputs []*output) error {
	for i, o := range outputs {
		for _, other := range outputs[:i] {
			if o.is(other.name, other.info) {
				return fmt.Errorf("-results and -balances are the same file %s: give two", o.name)
			}
		}
		for _, file := range in.files() {
			info, err := file.Stat()
			if err != nil {
				return err
			}
			if o.is(file.Name(), info) {
				return fmt.Errorf("%s is read and would be written: give another file", o.name)
			}
		}
		for _, name := range p.files() {
			info, err := os.Stat(name)
			if err != nil {
				info = nil
			}
			if o.is(name, info) {
				return fmt.Errorf("%s belongs to the store: give another file", o.name)
			}
		}
	}
	return nil
}
