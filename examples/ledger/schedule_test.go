package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func seqOf(lines []line) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func lineOf(number int, id string, accounts ...string) line {
	return line{number: int64(number), size: 1, parsed: parsed{id: id, accounts: accounts}}
}

func share(a, b line) bool {
	if a.id == b.id {
		return true
	}
	for _, x := range a.accounts {
		for _, y := range b.accounts {
			if x == y {
				return true
			}
		}
	}
	return false
}

// Any lines, any number of workers, any answers: each line begins after every
// earlier one that shares something with it has ended, what is in doubt is
// handed on, and answers come in order.
func TestScheduleIsAsIfInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(0, 40).Draw(t, "lines")
		names := rapid.IntRange(1, 12).Draw(t, "names")
		var lines []line
		var says []status
		for i := range count {
			l := lineOf(i+1, fmt.Sprint("k", rapid.IntRange(0, 3*names).Draw(t, "id")))
			for range rapid.IntRange(1, 2).Draw(t, "accounts") {
				// An id and an account of the same name have nothing in common.
				l.accounts = append(l.accounts, fmt.Sprint("k", rapid.IntRange(0, names).Draw(t, "account")))
			}
			if rapid.IntRange(0, 9).Draw(t, "invalid") == 0 {
				l = line{number: l.number, size: 1, invalid: errTooLong}
			}
			lines = append(lines, l)
			says = append(says, rapid.SampledFrom([]status{committed, committed, refused, reused, committed, committed, unknown, contended}).Draw(t, "status"))
		}
		// What has to come out, one line after the other.
		want := make([]status, count)
		runs := make([]bool, count)
		for i, l := range lines {
			if want[i] = says[i]; l.invalid != nil {
				want[i] = invalid
				continue
			}
			runs[i] = true
			for j := range i {
				if lines[j].invalid == nil && (want[j] == contended || want[j] == unknown) && share(l, lines[j]) {
					want[i], runs[i] = contended, false
				}
			}
		}

		workers := rapid.IntRange(1, 20).Draw(t, "workers")
		var mu sync.Mutex
		ended := make([]bool, count)
		ran := make([]bool, count)
		var now, most int
		s := schedule{workers: workers, run: func(_ context.Context, l line) (result, error) {
			at := int(l.number) - 1
			mu.Lock()
			ran[at] = true
			now++
			most = max(most, now)
			for j := range at {
				if runs[j] && share(l, lines[j]) && !ended[j] {
					defer t.Errorf("line %d runs before %d has ended", at+1, j+1)
				}
			}
			mu.Unlock()
			for range at * 7 % 5 {
				runtime.Gosched()
			}
			mu.Lock()
			defer mu.Unlock()
			now--
			ended[at] = true
			return result{Line: l.number, ID: l.id, Status: says[at]}, nil
		}}
		var got []status
		s.emit = func(l line, r result) error {
			require.Equal(t, lines[len(got)].number, l.number)
			require.Equal(t, result{Line: l.number, ID: l.id, Status: r.Status}, r)
			got = append(got, r.Status)
			return nil
		}
		require.NoError(t, s.do(context.Background(), seqOf(lines)))
		require.Equal(t, want, append([]status{}, got...))
		require.Equal(t, runs, ran)
		require.LessOrEqual(t, most, workers)
	})
}

func TestScheduleRunsTogetherWhatSharesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each waits for all others: one at a time would never end.
		var together sync.WaitGroup
		together.Add(3)
		lines := []line{lineOf(1, "k1", "A"), lineOf(2, "k2", "A"), lineOf(3, "k3", "B"), lineOf(4, "k4", "C", "D")}
		s := schedule{workers: 3, emit: func(line, result) error { return nil }, run: func(_ context.Context, l line) (result, error) {
			if l.number != 2 {
				together.Done()
				together.Wait()
			}
			return result{Status: committed}, nil
		}}
		require.NoError(t, s.do(t.Context(), seqOf(lines)))
	})
}

func TestScheduleHoldsAWindow(t *testing.T) {
	for name, c := range map[string]struct{ size, most int }{
		"lines": {1, windowLines + 100},
		"bytes": {maxLine, windowBytes/maxLine + 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var read, answered atomic.Int64
				all := func(yield func(line, error) bool) {
					for i := range 3 * windowLines {
						read.Add(1)
						l := lineOf(i+1, fmt.Sprint(i), fmt.Sprint(i))
						l.size = c.size
						if !yield(l, nil) {
							return
						}
					}
				}
				first := make(chan struct{})
				s := schedule{workers: 1 << 30, emit: func(line, result) error { answered.Add(1); return nil }, run: func(_ context.Context, l line) (result, error) {
					if l.number == 1 {
						<-first
					}
					return result{Status: committed}, nil
				}}
				done := make(chan error)
				go func() { done <- s.do(t.Context(), all) }()
				synctest.Wait()
				require.Zero(t, answered.Load(), "nothing is answered before the first line")
				require.LessOrEqual(t, read.Load(), int64(c.most))
				close(first)
				require.NoError(t, <-done)
				require.EqualValues(t, 3*windowLines, answered.Load())
			})
		})
	}
}

func TestScheduleEnds(t *testing.T) {
	broken := errors.New("broken")
	many := func(yield func(line, error) bool) {
		for i := 0; yield(lineOf(i+1, fmt.Sprint(i), "A"), nil); i++ {
		}
	}
	ok := func(context.Context, line) (result, error) { return result{Status: committed}, nil }
	ignore := func(line, result) error { return nil }

	t.Run("reading fails", func(t *testing.T) {
		answered := 0
		s := schedule{workers: 2, run: ok, emit: func(line, result) error { answered++; return nil }}
		require.ErrorIs(t, s.do(t.Context(), func(yield func(line, error) bool) { yield(line{}, broken) }), broken)
	})
	t.Run("a run fails", func(t *testing.T) {
		s := schedule{workers: 2, emit: ignore, run: func(_ context.Context, l line) (result, error) {
			if l.number == 100 {
				return result{}, broken
			}
			return ok(nil, l)
		}}
		require.ErrorIs(t, s.do(t.Context(), many), broken)
	})
	t.Run("emit fails", func(t *testing.T) {
		s := schedule{workers: 2, run: ok, emit: func(line, result) error { return broken }}
		require.ErrorIs(t, s.do(t.Context(), many), broken)
	})
	t.Run("the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		running := 0
		s := schedule{workers: 2, emit: ignore, run: func(ctx context.Context, l line) (result, error) {
			if l.number == 100 {
				running++
				cancel(broken)
				<-ctx.Done()
				running--
				return result{}, ctx.Err()
			}
			return ok(ctx, l)
		}}
		require.ErrorIs(t, s.do(ctx, many), broken)
		require.Zero(t, running, "do returned before its workers")
	})
	t.Run("a read that stands", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stands := make(chan struct{})
		defer close(stands)
		s := schedule{workers: 2, run: ok, emit: ignore}
		err := s.do(ctx, func(func(line, error) bool) { cancel(); <-stands })
		require.ErrorIs(t, err, context.Canceled)
	})
}
