package projector

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cccgo/ccc/eventstore"
)

// sideBySide applies events in lanes, until one of them fails, a parked event is
// due, or the worker has to end. Each lane commits events out of order and marks
// them; the checkpoint follows: it stands before the lowest unfinished one, so a
// worker that comes later finds the marks of what is done beyond it. Where it
// returns without an error all lanes have ended, and what they left is done in
// order, with the marks.
func (w *worker[Tx]) sideBySide(ctx context.Context, at Checkpoint) (progress, error) {
	w.marks = true // from now on, also for what comes after
	s := newSchedule(at)
	reading, endReading := context.WithCancel(ctx)
	defer endReading()
	defer context.AfterFunc(ctx, s.stop)()

	var lanes, mover sync.WaitGroup
	for range w.cfg.Lanes {
		lane := w.beside()
		lanes.Go(func() { lane.lane(ctx, s); endReading() })
	}
	moved := at
	mover.Go(func() { moved = w.beside().moveCheckpoint(ctx, s, at) })
	err := w.feedLanes(reading, s, at)
	if reading.Err() != nil || errors.Is(err, errStopped) {
		err = nil // the lanes have stopped, and know why
	}
	s.stop()
	lanes.Wait()
	s.close()
	mover.Wait()
	at = moved
	switch {
	case ctx.Err() != nil:
		return progress{at: at}, ctx.Err()
	case s.err != nil:
		return progress{at: at}, s.err
	}
	from := progress{at: at}
	if first := s.firstFailed(); first != nil {
		for _, t := range s.failed { // the others will be tried again, but not all is forgotten
			w.holds[t.record.ID] = w.holds[t.record.ID] || errors.Is(t.failed, ErrHold)
		}
		var kept error
		from, kept = w.fail(ctx, from, first.record, first.failed)
		err = cmp.Or(err, kept)
	}
	if err == nil && s.uncertain {
		err = errAnew
	}
	return from, err
}

// beside is this worker for another goroutine.
func (w *worker[Tx]) beside() *worker[Tx] {
	r, b := *w.run, *w
	r.delays = newDelays(w.cfg)
	b.run = &r
	return &b
}

// feedLanes reads page after page into the schedule, until the lanes stop or a
// parked event is due.
func (w *worker[Tx]) feedLanes(ctx context.Context, s *schedule, at Checkpoint) error {
	return w.read(ctx, at, func(page eventstore.Page) (Checkpoint, error) {
		end := Checkpoint{Position: page.UpTo, EventID: page.UpToID, Log: w.log.Log}
		keys := make([][]string, len(page.Records))
		for i, r := range page.Records {
			var err error
			if keys[i], err = w.keys(r); err != nil {
				// Those before it go first. In order, it fails for itself.
				if i == 0 {
					s.fail(&task{record: r}, err)
					return at, errStopped
				}
				end = w.checkpointAt(page.Records[i-1])
				page.Records, keys = page.Records[:i], keys[:i]
				break
			}
			if len(keys[i]) == 0 {
				keys[i] = []string{""} // those without a key are in order among themselves
			}
			if !w.log.UniqueEventIDs { // two of one event_id are not for two lanes
				keys[i] = append(keys[i], idKey(r))
			}
		}
		s.add(page, end, keys, w.checkpointAt)
		if most := 2 * max(w.cfg.BatchSize, w.cfg.Lanes); !s.room(most, 10*most) {
			return end, errStopped
		}
		if w.parked {
			if state, err := w.state(ctx); err != nil || w.due(state) {
				return end, cmp.Or(err, errStopped)
			}
		}
		return end, nil
	})
}

// errAnew has the name claimed anew: a transaction of a lane may still land, and
// does not under a newer epoch.
var errAnew = errors.New("the name is claimed anew")

// errStopped ends the reading for lanes that have stopped.
var errStopped = errors.New("the lanes have stopped")

// lane does one transaction after the other.
func (w *worker[Tx]) lane(ctx context.Context, s *schedule) {
	for t := s.first(); t != nil; t = s.first() {
		h := &held{tasks: []*task{t}}
		failed, err := w.laneBatch(ctx, s, h)
		switch {
		case failed != nil:
			s.fail(failed, err)
		case err != nil:
			s.abort(err)
		default:
			s.finish(h.tasks)
		}
		if s.isUncertain() { // until the name is claimed anew no mark may be dropped
			s.stop()
		}
	}
}

// laneBatch applies events that are handed out one by one in one transaction.
// Where its answer is lost the same ones go again, and their marks tell.
func (w *worker[Tx]) laneBatch(ctx context.Context, s *schedule, h *held) (failed *task, err error) {
	target := w.target.(LaneTarget[Tx]) // New has seen to it
	for again := false; ; again = true {
		err := target.Lane(ctx, w.claim, func(b Batch[Tx]) error {
			began := time.Now()
			for i := 0; i < len(h.tasks); i++ {
				if err := w.one(ctx, b, progress{}, h.tasks[i].record); err != nil {
					failed = h.tasks[i]
					return err
				}
				if last := i == len(h.tasks)-1; last && !again && i+1 < w.cfg.BatchSize && time.Since(began) < w.cfg.BatchTime {
					if t := s.more(h); t != nil {
						h.tasks = append(h.tasks, t)
					}
				}
			}
			return nil
		})
		var fault *failedEvent
		switch {
		case err == nil:
			w.delays.reset()
			return nil, nil
		case errors.Is(err, ErrCollided) && ctx.Err() == nil:
			continue
		case errors.As(err, &fault) && ctx.Err() == nil:
			return failed, fault.err
		case errors.Is(err, ErrTakenOver):
			return nil, err
		}
		s.doubt()
		if err := w.trouble(ctx, "the target does not take events", err); err != nil {
			return nil, err
		}
	}
}

// moveCheckpoint follows what the lanes have finished. It returns where the
// checkpoint is once they have ended.
func (w *worker[Tx]) moveCheckpoint(ctx context.Context, s *schedule, at Checkpoint) Checkpoint {
	for moved := (time.Time{}); ; moved = time.Now() {
		to, ok := s.reached(ctx, at, moved, w.cfg.BatchTime)
		if !ok {
			return at
		}
		w.forget = w.forget && !s.isUncertain()
		_, _, err := w.batch(ctx, progress{at: at}, nil, to, true)
		if err != nil {
			s.abort(err)
			return at
		}
		at = to
	}
}
