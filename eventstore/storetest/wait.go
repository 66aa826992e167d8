package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/eventstore"
)

// soon is how long a hint may take before it is no hint.
const soon = 5 * time.Second

var waitCases = []Case{
	{Name: "wait_is_level_triggered", Proves: "where there is something after the position Wait returns at once, however long it is there", run: func(e *env) {
		s := e.open()
		m := e.fill(s, facts(3)...)
		for range 3 {
			for _, after := range []consistency.Position{none, m[0].Position, m[1].Position} {
				e.wakes(s, after)
			}
		}
	}},
	{Name: "wait_wakes", Proves: "an append wakes everybody who waits, and a failed one does no harm", run: func(e *env) {
		s := e.open()
		for round := range min(20, e.f.Rounds) {
			head := e.last(s, everything)
			e.together(9, func(i int) {
				if i < 8 {
					e.wakes(s, head)
					return
				}
				if round%2 == 0 { // most likely all wait by then; in the other rounds some are late
					e.pause("the case's time is up")
				}
				e.refuse(s, eventstore.Conflict, seen(at(where("k", "none"), consistency.NewPosition(0, 1))), facts(1))
				e.save(s, nil, fact())
			})
		}
	}},
	{Name: "wait_loses_no_wakeup", Proves: "a reader that waits after what it has seen gets each event soon, written at whatever moment", run: func(e *env) {
		s := e.open()
		rounds := e.f.Rounds
		got := make(chan struct{})
		e.together(2, func(i int) {
			if i == 0 {
				for n := range rounds {
					e.save(s, nil, fact("n", fmt.Sprint(n)))
					select {
					case <-got:
					case <-e.ctx.Done():
						e.failf("the reader did not get event %d of %d", n, rounds)
					}
				}
				return
			}
			after := none
			for n := range rounds {
				for {
					e.wakes(s, after)
					page := e.page(s, everything, after, 0)
					if page.UpTo.After(after) {
						after = page.UpTo
						break
					}
					e.pause("the page stays behind the hint")
				}
				select {
				case got <- struct{}{}:
				case <-e.ctx.Done():
					e.failf("the writer stopped at %d", n)
				}
			}
		})
	}},
	{Name: "wait_ends_with_its_context", Proves: "where nothing comes Wait ends when its context does, with the context's error", run: func(e *env) {
		s := e.open()
		for range 2 {
			head := e.last(s, everything)
			e.ends(s, head, func() (context.Context, context.CancelFunc) { return context.WithTimeout(e.ctx, 20*time.Millisecond) }, context.DeadlineExceeded)
			e.ends(s, head, func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(e.ctx)
				time.AfterFunc(5*time.Millisecond, cancel)
				return ctx, cancel
			}, context.Canceled)
			e.save(s, nil, fact())
		}
	}},
	{Name: "wait_is_quiet", Proves: "while nothing happens Wait blocks: a reader that follows hints does not spin", run: func(e *env) {
		s := e.open()
		e.save(s, nil, fact())
		head := e.last(s, everything)
		ctx, cancel := context.WithTimeout(e.ctx, 200*time.Millisecond)
		defer cancel()
		returns := 0
		for s.Wait(ctx, head) == nil {
			if returns++; returns > 20 {
				e.failf("Wait returned %d times at the end of a log in which nothing happens", returns)
			}
		}
	}},
}

// wakes waits for a hint that must come soon.
func (e *env) wakes(s eventstore.Store, after consistency.Position) {
	ctx, cancel := context.WithTimeout(e.ctx, soon)
	defer cancel()
	if err := s.Wait(ctx, after); err != nil {
		e.failf("Wait after %s: nil expected within %s, got %w", after, soon, err)
	}
}

// ends waits at the end of the log. Hints for nothing are allowed.
func (e *env) ends(s eventstore.Store, head consistency.Position, begin func() (context.Context, context.CancelFunc), want error) {
	ctx, cancel := begin()
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for {
			if err := s.Wait(ctx, head); err != nil || ctx.Err() != nil {
				ended <- err
				return
			}
		}
	}()
	patience := time.NewTimer(soon)
	defer patience.Stop()
	select {
	case err := <-ended:
		if err != nil {
			e.is(err, want)
		}
	case <-patience.C:
		e.failf("Wait did not end within %s after its context", soon)
	}
}
