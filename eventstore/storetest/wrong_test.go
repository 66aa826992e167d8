package storetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/stretchr/testify/require"
)

// wrong is a store that does one thing wrong: what is set here. The rest is
// right.
type wrong struct {
	eventstore.Store
	append   func(context.Context, []event.Record, []consistency.Observation) (eventstore.Receipt, error)
	snapshot func(context.Context, ...eventstore.Part) ([]eventstore.Result, error)
	page     func(context.Context, consistency.Query, consistency.Position, int) (eventstore.Page, error)
	wait     func(context.Context, consistency.Position) error
	features func() eventstore.Features
	close    func() error
}

func (w *wrong) Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (eventstore.Receipt, error) {
	if w.append != nil {
		return w.append(ctx, records, seen)
	}
	return w.Store.Append(ctx, records, seen)
}

func (w *wrong) Snapshot(ctx context.Context, parts ...eventstore.Part) ([]eventstore.Result, error) {
	if w.snapshot != nil {
		return w.snapshot(ctx, parts...)
	}
	return w.Store.Snapshot(ctx, parts...)
}

func (w *wrong) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	if w.page != nil {
		return w.page(ctx, q, after, limit)
	}
	return w.Store.Page(ctx, q, after, limit)
}

func (w *wrong) Wait(ctx context.Context, after consistency.Position) error {
	if w.wait != nil {
		return w.wait(ctx, after)
	}
	return w.Store.Wait(ctx, after)
}

func (w *wrong) Features() eventstore.Features {
	if w.features != nil {
		return w.features()
	}
	return w.Store.Features()
}

func (w *wrong) Close() error {
	if w.close != nil {
		return w.close()
	}
	return w.Store.Close()
}

// wrongStore says what is wrong, which case must notice, and how it is made
// out of a right store.
type wrongStore struct {
	what, fails string
	make        func(w *wrong)
}

func wrongStores() (all []wrongStore) {
	for _, group := range [][]wrongStore{wrongAppends, wrongKinds, wrongObservations, wrongMatches, wrongContents, wrongSnapshots, wrongMoments, wrongPages, wrongWaits, wrongRaces, wrongCloses} {
		all = append(all, group...)
	}
	return all
}

// Time is virtual, so that what hangs and what is late is seen at once.
func TestWrongStoresFail(t *testing.T) {
	for _, wrongOne := range wrongStores() {
		t.Run(wrongOne.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails(t, wrongOne.fails, Features{Rounds: 40}, func(string) (eventstore.Store, error) {
					w := &wrong{Store: memstore.New()}
					wrongOne.make(w)
					return w, nil
				})
			})
		})
	}
}

// fails runs one case, which must fail and say so.
func fails(t *testing.T, name string, f Features, open func(string) (eventstore.Store, error)) {
	t.Helper()
	for _, c := range Cases() {
		if c.Name != name {
			continue
		}
		require.Empty(t, c.skipped(f), "the case did not run")
		err := c.try(t.Context(), f, open)
		require.ErrorContains(t, err, "case "+name)
		require.ErrorContains(t, err, c.Proves)
		t.Log(err)
		return
	}
	t.Fatalf("there is no case %s", name)
}

// A case that no wrong store fails may be one that cannot fail.
func TestEachCaseCanFail(t *testing.T) {
	shown := map[string]bool{}
	for _, w := range wrongStores() {
		shown[w.fails] = true
	}
	for _, w := range wrongHandles {
		shown[w.fails] = true
	}
	for _, c := range Cases() {
		require.True(t, shown[c.Name], "no wrong store is shown to fail case %s", c.Name)
	}
}

func TestCheckNamesAllThatFailed(t *testing.T) {
	open := func(string) (eventstore.Store, error) {
		w := &wrong{Store: memstore.New()}
		w.close = func() error { return context.Canceled }
		return w, nil
	}
	skip := map[string]string{}
	for _, c := range Cases()[2:] {
		skip[c.Name] = "not here"
	}
	err := Check(Features{Skip: skip}, open)
	for _, c := range Cases()[:2] {
		require.ErrorContains(t, err, c.Name)
	}
	require.NotContains(t, err.Error(), Cases()[2].Name)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCheckOfAStoreThatCannotOpen(t *testing.T) {
	err := Check(Features{}, func(string) (eventstore.Store, error) { return nil, context.Canceled })
	require.ErrorIs(t, err, context.Canceled)
}

// A call that never ends is named, and does not stop the suite.
func TestCallsThatIgnoreTheirContextAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		fails(t, "append_saves_all", Features{Timeout: time.Second}, func(string) (eventstore.Store, error) {
			w := &wrong{Store: memstore.New()}
			w.append = func(context.Context, []event.Record, []consistency.Observation) (eventstore.Receipt, error) {
				<-release
				return eventstore.Receipt{}, context.Canceled
			}
			return w, nil
		})
		close(release)
	})
}

// What runs in a bubble must pass there.
func TestMemstoreWhereTimeIsVirtual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.NoError(t, Check(Features{Rounds: 10}, memory))
	})
}

// Stores whose Features promise less are not asked for it.
func TestStoreWithoutUniqueEventIDs(t *testing.T) {
	require.NoError(t, Check(Features{Rounds: 10}, func(string) (eventstore.Store, error) {
		return &wrong{Store: memstore.New(), features: func() eventstore.Features { return eventstore.Features{} }}, nil
	}))
}
