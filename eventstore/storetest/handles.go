package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

func (e *env) is(err, target error) {
	if !errors.Is(err, target) {
		e.failf("an error that is %q expected, got: %w", target, err)
	}
}

func durable(f Features) string {
	if f.Durable {
		return ""
	}
	return "the store is not durable"
}

func secondHandle(f Features) string {
	if f.SecondHandle {
		return ""
	}
	return "a log is open once at a time"
}

var handleCases = []Case{
	{Name: "closed_store", Proves: "a closed store answers every call with ErrClosed, and a second Close with nil", run: func(e *env) {
		s := e.open()
		e.save(s, nil, fact())
		for range 2 {
			e.need(s.Close(), "close")
			e.refuse(s, eventstore.Permanent, nil, []event.Record{fact()}, eventstore.ErrClosed)
			_, err := s.Snapshot(e.ctx, eventstore.Part{Query: everything})
			e.isKind(err, eventstore.Permanent, eventstore.ErrClosed)
			_, err = s.Page(e.ctx, everything, none, 1)
			e.isKind(err, eventstore.Permanent, eventstore.ErrClosed)
			for _, after := range []consistency.Position{none, consistency.NewPosition(1, 1)} {
				e.isKind(s.Wait(e.ctx, after), eventstore.Permanent, eventstore.ErrClosed)
			}
		}
	}},
	{Name: "close_ends_waits", Proves: "Close ends the Waits that are running", run: func(e *env) {
		s := e.open()
		ended := make(chan error, 4)
		for range cap(ended) {
			go func() {
				for {
					if err := s.Wait(e.ctx, none); err != nil {
						ended <- err
						return
					}
				}
			}()
		}
		e.pause("the case's time is up") // most likely they wait by then
		e.need(s.Close(), "close")
		patience := time.NewTimer(soon)
		defer patience.Stop()
		for range cap(ended) {
			select {
			case err := <-ended:
				e.is(err, eventstore.ErrClosed)
			case <-patience.C:
				e.failf("Wait did not end within %s after Close", soon)
			}
		}
	}},
	{Name: "close_under_load", Proves: "appends and reads that run into Close end with a true answer", run: func(e *env) {
		s := e.open()
		var saved atomic.Int64
		begun := make(chan struct{}, 100)
		e.together(9, func(i int) {
			if i == 8 {
				for range 16 {
					select {
					case <-begun:
					case <-e.ctx.Done():
					}
				}
				e.need(s.Close(), "close")
				return
			}
			for {
				_, err := s.Append(e.ctx, []event.Record{fact("k", "1")}, nil)
				if err == nil {
					saved.Add(1)
				} else if _, readErr := s.Snapshot(e.ctx, eventstore.Part{Query: everything}); readErr != nil {
					e.is(err, eventstore.ErrClosed)
					e.is(readErr, eventstore.ErrClosed)
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
		if e.f.Durable {
			if n := len(e.history(e.open(), everything)); int64(n) < saved.Load() {
				e.failf("%d events were answered as saved, the log holds %d", saved.Load(), n)
			}
		}
	}},
	{Name: "other_log", Proves: "another name is another log: events, positions, event_ids, observations and hints of one are not in the other", run: func(e *env) {
		s, other := e.open(), e.openNamed(e.name+"_2")
		a, b := s.Features().Log, other.Features().Log
		if a == b && a != uuid.Nil {
			e.failf("two logs call themselves %s", a)
		}
		r := fact("k", "1")
		e.save(s, nil, r, fact("k", "1"))
		e.holds(other)
		e.quiet(other, none)
		e.save(other, seen(at(where("k", "1"), none), at(everything, none)), r)
		e.holds(other, r)
		p := e.last(s, everything)
		e.save(s, seen(at(everything, p)), fact())
	}},
	{Name: "reopened_log", Proves: "a log that was closed and is opened again has the same events at the same positions, the same name, and goes on above them", skip: durable, run: func(e *env) {
		s := e.open()
		var log model
		name := s.Features().Log
		for i := range 3 {
			records := []event.Record{fact("k", "1"), typed("U", "round", fmt.Sprint(i))}
			before := none
			if len(log) > 0 {
				before = log[len(log)-1].Position
			}
			p := e.save(s, seen(at(everything, before)), records...)
			if !p[0].After(before) {
				e.failf("after opening again a save got position %s, the log's last event is at %s", p[0], before)
			}
			log = append(log, placed(records, p)...)
			e.need(s.Close(), "close")
			s = e.open()
			if again := s.Features().Log; again != name {
				e.failf("the log was %s, opened again it is %s", name, again)
			}
			e.asks(s, log, everything)
			e.asks(s, log, where("k", "1").Or(everything.Type("U")))
			e.refuse(s, eventstore.Conflict, seen(at(everything, before)), []event.Record{fact()})
			if s.Features().UniqueEventIDs {
				e.refuse(s, eventstore.Permanent, nil, []event.Record{records[0]}, eventstore.ErrDuplicateEvent)
			}
		}
	}},
	{Name: "second_handle", Proves: "what one handle was answered, another one of the same log sees, checks and is woken by", skip: secondHandle, run: func(e *env) {
		handles := []eventstore.Store{e.open(), e.open()}
		if a, b := handles[0].Features().Log, handles[1].Features().Log; a != b {
			e.failf("two handles of one log call it %s and %s", a, b)
		}
		var log model
		q := where("k", "1")
		for i := range min(20, e.f.Rounds) {
			one, two := handles[i%2], handles[1-i%2]
			head := log.last(everything, none)
			woken := make(chan error, 1)
			go func() { woken <- two.Wait(e.ctx, head) }()
			r := []event.Record{fact("k", "1")}
			log = append(log, placed(r, e.save(one, seen(at(q, head)), r...))...)
			e.need(<-woken, "wait of the other handle")
			e.asks(two, log, everything)
			e.refuse(two, eventstore.Conflict, seen(at(q, head)), []event.Record{fact()})
			if two.Features().UniqueEventIDs {
				e.refuse(two, eventstore.Permanent, nil, r, eventstore.ErrDuplicateEvent)
			}
		}
		e.need(handles[0].Close(), "close")
		e.asks(handles[1], log, everything)
		e.save(handles[1], nil, fact())
	}},
	{Name: "second_handle_race", Proves: "of racers on two handles of one log exactly one wins each round", skip: secondHandle, run: func(e *env) {
		handles := []eventstore.Store{e.open(), e.open()}
		e.oneWinner(func(i int) eventstore.Store { return handles[i%2] }, 8, max(2, e.f.Rounds/2))
	}},
	{Name: "second_handle_order", Proves: "with writers on two handles positions still appear in order, and saves whole", skip: secondHandle, run: func(e *env) {
		handles := []eventstore.Store{e.open(), e.open()}
		var read []event.Record
		e.whileWriting(4, func(writer, i int) {
			e.save(handles[writer%2], nil, fact("save", "1"), fact("save", "2"))
		}, func() {
			cursor := none
			if len(read) > 0 {
				cursor = read[len(read)-1].Position
			}
			got := e.snapshot(handles[e.rng.IntN(2)], eventstore.Part{Query: everything, After: cursor})[0].Records
			if read = append(read, got...); len(got)%2 != 0 {
				e.failf("half of a save is visible")
			}
		})
		e.same(read, e.history(handles[0], everything), "the log, against what was seen while it grew")
	}},
}

// quiet fails if there is a steady hint where there is nothing.
func (e *env) quiet(s eventstore.Store, after consistency.Position) {
	page := e.page(s, everything, after, 1)
	if len(page.Records) > 0 || page.UpTo.After(after) {
		e.failf("nothing expected after %s, the page goes up to %s", after, page.UpTo)
	}
}
