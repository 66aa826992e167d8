package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/stretchr/testify/require"
)

// small gives pages of what matches in the next three events, counts them, and
// fails the one it is told to.
type small struct {
	eventstore.Store
	pages, fail int
}

var errSorry = errors.New("sorry")

func (s *small) Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (eventstore.Page, error) {
	if s.pages++; s.pages == s.fail {
		return eventstore.Page{}, errSorry
	}
	page, err := s.Store.Page(ctx, consistency.All(), after, 3)
	page.Records = slices.DeleteFunc(page.Records, func(r event.Record) bool { return !q.Matches(r.Type, r.Data) })
	return page, err
}

func newSmall(t *testing.T, events int) *small {
	s := &small{Store: memstore.New()}
	for i := range events {
		_, err := s.Append(t.Context(), []event.Record{record(fmt.Sprintf(`{"n":"%d","odd":"%d"}`, i, i%2))}, nil)
		require.NoError(t, err)
	}
	return s
}

func TestAllWalksOverPages(t *testing.T) {
	s := newSmall(t, 20)
	walk := func(q consistency.Query, after uint64) (got []uint64) {
		for r, err := range eventstore.All(t.Context(), s, q, consistency.NewPosition(0, after)) {
			require.NoError(t, err)
			_, n := r.Position.Parts()
			got = append(got, n)
		}
		return got
	}
	require.Len(t, walk(consistency.All(), 0), 20)
	require.Equal(t, []uint64{15, 17, 19}, walk(consistency.Where("odd", "0"), 13))
	require.Equal(t, []uint64{18}, walk(consistency.Where("n", "17"), 0), "one match far from the start")
	require.Empty(t, walk(consistency.All(), 20))
	require.Empty(t, walk(consistency.All(), 99))
	require.Empty(t, walk(consistency.Where("n", "none"), 0))
	require.Empty(t, func() (got []event.Record) {
		for r := range eventstore.All(t.Context(), memstore.New(), consistency.All(), consistency.Position{}) {
			got = append(got, r)
		}
		return got
	}())
}

// What is appended while the walk goes on is seen, if it has not ended yet.
func TestAllSeesWhatIsThereWhenItGetsThere(t *testing.T) {
	s := newSmall(t, 4)
	n := 0
	for _, err := range eventstore.All(t.Context(), s, consistency.All(), consistency.Position{}) {
		require.NoError(t, err)
		if n++; n == 2 {
			_, err := s.Append(t.Context(), records(3), nil)
			require.NoError(t, err)
		}
	}
	require.Equal(t, 7, n)
}

func TestAllGivesAnErrorAsTheLastPair(t *testing.T) {
	s := newSmall(t, 9)
	s.fail = 3
	n, ends := 0, 0
	for r, err := range eventstore.All(t.Context(), s, consistency.All(), consistency.Position{}) {
		require.Zero(t, ends, "nothing comes after an error")
		if err != nil {
			require.ErrorIs(t, err, errSorry)
			require.Zero(t, r)
			ends++
			continue
		}
		n++
	}
	require.Equal(t, 6, n)
	require.Equal(t, 1, ends)
}

func TestAllReadsNoFurtherThanItIsAsked(t *testing.T) {
	s := newSmall(t, 20)
	n := 0
	for range eventstore.All(t.Context(), s, consistency.All(), consistency.Position{}) {
		if n++; n == 4 {
			break
		}
	}
	require.Equal(t, 2, s.pages)
}
