package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/examples/internal/stores"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/sqlitetarget"
)

// school is the program at work: commands, the read model, the reaction.
type school struct {
	runner *command.Runner
	model  *sqlitetarget.Target
	seats  *projector.Projector[*sqlitetarget.Tx]
	lists  *projector.Projector[*sqlitetarget.Tx]
	close  func() error
}

// open opens the store and, beside it, the files of the projectors.
func open(ctx context.Context, where string) (*school, error) {
	place, err := stores.Parse(where)
	if err != nil {
		return nil, err
	}
	store, err := place.Open(ctx, events)
	if err != nil {
		return nil, err
	}
	if place.Beside != "" {
		return newSchool(store, place.Beside, func() error { return nil })
	}
	dir, err := os.MkdirTemp("", "courses-") // of the read model
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return newSchool(store, filepath.Join(dir, "courses"), func() error { return os.RemoveAll(dir) })
}

// newSchool takes over the store, also where it fails.
func newSchool(store eventstore.Store, file string, after func() error) (*school, error) {
	model, err1 := sqlitetarget.Open(file+".seats", seatsTable)
	// While a command runs, nobody else writes to the file of its reaction: it is
	// not the read model's.
	reactions, err2 := sqlitetarget.Open(file + ".reactions")
	closeAll := func() (err error) {
		if err1 == nil {
			err = model.Close()
		}
		if err2 == nil {
			err = errors.Join(err, reactions.Close())
		}
		return errors.Join(err, store.Close(), after())
	}
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(err, closeAll())
	}
	runner := command.NewRunner(store, command.Config{})
	return &school{
		runner: runner,
		model:  model,
		seats:  newSeats(store, model),
		lists: projector.New(store, reactions, projector.Config{Name: "waiting lists", Events: events},
			openWaitingLists[*sqlitetarget.Tx](runner)),
		close: closeAll,
	}, nil
}

// work does something while the projectors run.
func (s *school) work(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	for _, p := range []*projector.Projector[*sqlitetarget.Tx]{s.seats, s.lists} {
		running.Go(func() {
			if err := p.Run(ctx); err != nil {
				stop(err)
			}
		})
	}
	err := do(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	stop(nil)
	running.Wait()
	return err
}
