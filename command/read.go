package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// maxRounds bounds the reads of one attempt: a view whose choice changes with
// each read ends as unavailable.
const maxRounds = eventstore.MaxObservations

var errStale = errors.New("the store shows an older state than it did before")

// reset forgets all that was read.
func (r *reading) reset() { *r = reading{slots: r.slots[:0], codecs: r.codecs, wanted: r.wanted[:0]} }

// rewind makes the reading ready for a new attempt: states that no decision has
// touched, and what the view wants beyond them.
func (c *call[S]) rewind() error {
	r := &c.reading
	r.slots = slices.DeleteFunc(r.slots, func(s slot) bool { return !s.used || !s.leaf.model.copies() })
	for i := range r.slots {
		s := &r.slots[i]
		s.state = s.leaf.model.copy(s.kept)
	}
	r.err = nil
	evaluate(c.view, r)
	return r.err
}

// remembered gives the state that the cache has, on a first try alone. The
// contexts in it may be of different ages.
func (c *call[S]) remembered() (state S, ok bool) {
	if c.attempts > 1 {
		return state, false
	}
	r := &c.reading
	defer func() {
		if p := recover(); p != nil {
			ok = false // on mixed states even a pure function may fail
		}
		if !ok || r.uneven() {
			ok = false
			r.reset()
			evaluate(c.view, r) // wants all of it, from the start
		}
	}()
	for range maxRounds {
		if !c.runner.cache.fill(r) {
			return state, false
		}
		if state, ok = evaluate(c.view, r); ok {
			return state, true
		}
	}
	return state, false
}

// read brings every context to one moment, the same for all and for the id:
// what was read before is caught up in each round, together with what the view
// has asked for since. Events under the id are returned at once: this command
// has its answer already.
func (c *call[S]) read(ctx context.Context) (state S, own []event.Record, err error) {
	r := &c.reading
	c.history = nil
	for range maxRounds {
		parts := make([]eventstore.Part, 1, 1+len(r.slots)+len(r.wanted))
		parts[0] = eventstore.Part{Query: c.guard}
		fresh := len(r.slots) == 0
		for _, l := range r.wanted {
			r.slots = append(r.slots, slot{leaf: l, state: l.model.zero()})
		}
		r.wanted = r.wanted[:0]
		for i := range r.slots {
			s := &r.slots[i]
			parts = append(parts, eventstore.Part{Query: s.leaf.query, After: s.at, LatestOnly: s.leaf.latest})
		}
		results, err := c.snapshot(ctx, parts)
		if err != nil {
			r.reset()
			return state, nil, err
		}
		if own = results[0].Records; len(own) > 0 {
			if fresh {
				c.history = results[1:]
			}
			return state, own, nil
		}
		for i, res := range results[1:] {
			if err := r.slots[i].catchUp(res); err != nil {
				if errors.Is(err, errStale) {
					c.runner.cache.forget(r.slots[i].leaf) // or the log was replaced
				}
				r.reset()
				return state, nil, err
			}
		}
		state, ok := evaluate(c.view, r)
		if r.err != nil {
			return state, nil, r.err
		}
		if ok {
			return state, nil, nil
		}
	}
	r.reset()
	return state, nil, fmt.Errorf("%w: what %s depends on changed with each of %d reads", errRetry, c.name, maxRounds)
}

// catchUp takes over what a later read shows of a context.
func (s *slot) catchUp(res eventstore.Result) error {
	shown := s.at
	if s.leaf.latest {
		shown = consistency.Position{}
	}
	if n := len(res.Records); n > 0 {
		shown = res.Records[n-1].Position
	}
	if res.Last.After(shown) || shown.After(res.Last) && len(res.Records) > 0 {
		return fmt.Errorf("%w: the store ends what it shows of %s at %s, but its latest match is at %s", errRetry, s.leaf.text, shown, res.Last)
	}
	if s.at.After(res.Last) {
		return fmt.Errorf("%w: %w: %s was at %s and is at %s", errRetry, errStale, s.leaf.text, s.at, res.Last)
	}
	state := s.state
	if s.leaf.latest {
		state = s.leaf.model.zero()
	}
	state, err := s.leaf.model.fold(state, res.Records, s.leaf.latest)
	if err != nil {
		return err
	}
	s.state, s.at, s.kept = state, res.Last, nil
	if s.leaf.model.copies() {
		s.kept = s.leaf.model.copy(state)
	}
	return nil
}

// foldOwn gives the contexts and the state as they are right after the save
// of records. Events that a context's query does not meet are not folded into
// it: a replay would not find them there.
func (c *call[S]) foldOwn(records []event.Record) (after []slot, state S, err error) {
	r := &c.next
	*r = reading{slots: append(c.room.after[:0], c.reading.slots...), codecs: c.reading.codecs, chosen: c.reading.chosen, settled: true}
	folded := uint64(0) // which of the first records were read back by a fold
	for i := range r.slots {
		s := &r.slots[i]
		if !s.used {
			continue
		}
		if s.leaf.model.copies() {
			s.state = s.leaf.model.copy(s.kept)
		}
		for n, rec := range records {
			if !s.leaf.query.Matches(rec.Type, rec.Data) {
				continue
			}
			if s.state, err = s.leaf.model.fold(s.state, records[n:n+1], s.leaf.latest); err != nil {
				return nil, state, err
			}
			if s.own = n + 1; rec.Type != event.MarkerType {
				folded |= 1 << n
			}
		}
		if s.leaf.model.copies() {
			s.kept = s.leaf.model.copy(s.state)
		}
	}
	for n, rec := range records {
		if n < 64 && folded&(1<<n) != 0 {
			continue
		}
		if _, err := decode(r.codecs, rec); err != nil { // a repeat could not read it
			return nil, state, err
		}
	}
	state, ok := evaluate(c.view, r)
	if !ok {
		return nil, state, cmp.Or(r.err, errUnsettled)
	}
	return r.slots, state, nil
}

var (
	errUnsettled = fmt.Errorf("%w: a view asks for other contexts than it did before: its functions must be pure", ErrMisuse)
	errNoView    = fmt.Errorf("%w: the command's Context is the zero View: use Model.History, Latest or None", ErrMisuse)
)

// stateAt gives the state right after own events: contexts as they were up to
// the last of them. What a view chose by another context (Then) is chosen by
// the state before the first.
func (c *call[S]) stateAt(ctx context.Context, own []event.Record) (state S, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	first, last := own[0].Position, own[len(own)-1].Position
	r := &reading{}
	evaluate(c.view, r)
	var after consistency.Position
	if r.branches {
		for range maxRounds {
			if len(r.wanted) == 0 {
				break
			}
			if err = c.readUpTo(ctx, r, first.Prev(), first.Prev(), last); err != nil {
				return state, err
			}
			evaluate(c.view, r)
		}
		after, r.settled = first.Prev(), true
	}
	if r.err != nil {
		return state, r.err
	}
	if !c.fromHistory(r, last) {
		if err = c.readUpTo(ctx, r, after, last, last); err != nil {
			return state, err
		}
	}
	state, ok := evaluate(c.view, r)
	for _, codec := range r.codecs {
		c.reading.know(codec)
	}
	if !ok {
		return state, cmp.Or(r.err, errUnsettled)
	}
	return state, nil
}

// readUpTo brings the contexts of r from a position to another, and what it
// wants from the start. Contexts of the latest match are read anew.
func (c *call[S]) readUpTo(ctx context.Context, r *reading, after, upTo, last consistency.Position) error {
	for _, l := range r.wanted {
		r.slots = append(r.slots, slot{leaf: l, state: l.model.zero(), bare: true})
	}
	r.wanted = r.wanted[:0]
	if len(r.slots) == 0 {
		return nil
	}
	parts := make([]eventstore.Part, 0, len(r.slots)+1)
	for i := range r.slots {
		s := &r.slots[i]
		p := eventstore.Part{Query: s.leaf.query, UpTo: upTo, LatestOnly: s.leaf.latest}
		if !s.bare {
			p.After = after
		}
		parts = append(parts, p)
	}
	if upTo.IsZero() { // before the first event: nothing; a zero UpTo would mean the head
		for i := range r.slots {
			r.slots[i].bare = false
		}
		return nil
	}
	parts = append(parts, eventstore.Part{Query: c.guard, UpTo: last, LatestOnly: true})
	results, err := c.snapshot(ctx, parts)
	if err != nil {
		return err
	}
	if results[len(r.slots)].Last != last {
		return fmt.Errorf("%w: %w: own events are missing", errRetry, errStale)
	}
	for i, res := range results[:len(r.slots)] {
		s := &r.slots[i]
		if s.bare, err = false, s.catchUp(res); err != nil {
			return err
		}
	}
	return nil
}

// fromHistory fills r from the read that found the own events, if that read
// shows the contexts up to the last of them.
func (c *call[S]) fromHistory(r *reading, last consistency.Position) bool {
	if r.branches || len(c.history) != len(r.wanted) {
		return false
	}
	slots := make([]slot, len(r.wanted))
	for i, l := range r.wanted {
		res := c.history[i]
		if l.latest && res.Last.After(last) {
			return false
		}
		if end := slices.IndexFunc(res.Records, func(e event.Record) bool { return e.Position.After(last) }); end >= 0 {
			if res.Records, res.Last = res.Records[:end], (consistency.Position{}); end > 0 {
				res.Last = res.Records[end-1].Position
			}
		}
		slots[i] = slot{leaf: l, state: l.model.zero()}
		if slots[i].catchUp(res) != nil {
			return false // told by the read that follows
		}
	}
	r.slots, r.wanted = slots, r.wanted[:0]
	return true
}
