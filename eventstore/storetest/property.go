package storetest

import (
	"fmt"
	"math/rand/v2"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

var propertyCases = []Case{
	{Name: "random_calls_agree_with_a_model", Proves: "any sequence of appends and reads gives what a list and a loop over it would", run: func(e *env) {
		for n := range max(2, e.f.Rounds/10) {
			seed := e.f.Seed + uint64(n)
			s := e.openNamed(fmt.Sprint(e.name, "_", n))
			w := world{env: e, s: s, rng: rand.New(rand.NewPCG(seed, 1))}
			if err := e.guard(w.play); err != nil {
				e.failf("seed %d (Features.Seed repeats it), call %d: %w", seed, w.calls, err)
			}
			e.need(s.Close(), "close")
		}
	}},
}

// world is a random sequence of calls and the model they are compared with.
type world struct {
	*env
	s     eventstore.Store
	m     model
	rng   *rand.Rand
	calls int
}

func (w *world) play() {
	for range 60 {
		w.calls++
		switch w.rng.IntN(5) {
		case 0, 1, 2:
			w.append()
		case 3:
			parts := make([]eventstore.Part, 1+w.rng.IntN(4))
			for i := range parts {
				parts[i] = eventstore.Part{Query: w.query(), After: w.position(), UpTo: w.position(), LatestOnly: w.rng.IntN(2) == 0}
			}
			for i, got := range w.snapshot(w.s, parts...) {
				w.result(w.m, parts[i], got)
			}
		case 4:
			q, after := w.query(), w.position()
			want := w.m.result(eventstore.Part{Query: q, After: after}).Records
			w.same(want, w.pages(w.s, q, after, w.rng.IntN(6), w.m.last(everything, none)), "pages of %s after %s", q, after)
		}
	}
	w.holds(w.s, w.m...)
}

func (w *world) append() {
	records := make([]event.Record, 1+w.rng.IntN(4))
	for i := range records {
		records[i] = w.record()
	}
	var seen []consistency.Observation
	for range w.rng.IntN(4) {
		q := w.query()
		o := at(q, w.m.last(q, none))
		if w.rng.IntN(8) == 0 {
			o.At = w.position()
		}
		seen = append(seen, o)
	}
	if !w.m.holds(seen) {
		w.refuse(w.s, eventstore.Conflict, seen, records)
		return
	}
	if len(w.m) > 0 && w.s.Features().UniqueEventIDs && w.rng.IntN(10) == 0 {
		records[w.rng.IntN(len(records))].ID = w.m[w.rng.IntN(len(w.m))].ID
		w.refuse(w.s, eventstore.Permanent, seen, records, eventstore.ErrDuplicateEvent)
		return
	}
	w.m = append(w.m, placed(records, w.save(w.s, seen, records...))...)
}

func (w *world) pick(texts ...string) string { return texts[w.rng.IntN(len(texts))] }

func (w *world) record() event.Record {
	var kv []string
	for _, key := range []string{"a", "b", "c"} {
		if w.rng.IntN(3) > 0 {
			kv = append(kv, key, w.pick("1", "2", "", "x y"))
		}
	}
	r := typed(w.pick("T", "U", "V"), kv...)
	if w.rng.IntN(6) == 0 && !w.f.ScalarsMatch {
		r.Data = []byte(`{"a":1,"b":["1"],"c":{"a":"1"}}`)
	}
	return r
}

func (w *world) query() consistency.Query {
	q := w.criterion()
	for range w.rng.IntN(3) {
		q = q.Or(w.criterion())
	}
	return q
}

func (w *world) criterion() consistency.Query {
	q := everything
	for _, key := range []string{"a", "b", "c"} {
		if w.rng.IntN(3) == 0 {
			q = q.And(where(key, w.pick("1", "2", "", "x y")))
		}
	}
	switch w.rng.IntN(4) {
	case 0:
		q = q.Type(w.pick("T", "U", "none"))
	case 1:
		q = q.Type("U", w.pick("T", "V"))
	}
	return q
}

// position is zero, one of the log's, or one near it.
func (w *world) position() consistency.Position {
	if len(w.m) == 0 || w.rng.IntN(4) == 0 {
		return none
	}
	p := w.m[w.rng.IntN(len(w.m))].Position
	if w.rng.IntN(4) == 0 {
		p = p.Prev()
	}
	return p
}
