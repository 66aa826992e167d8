package storetest

import (
	"strings"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

var queryCases = []Case{
	{Name: "queries_and_or_types", Proves: "AND, OR and types mean the same in histories, latest matches, pages and observations", run: func(e *env) {
		a1, a2, b1, b2 := where("a", "1"), where("a", "2"), where("b", "1"), where("b", "2")
		e.ask([]event.Record{
			typed("T", "a", "1"), typed("U", "a", "1"), typed("T", "b", "1"), typed("U", "a", "1", "b", "1"),
			typed("T", "a", "2", "b", "1"), typed("V", "a", "1", "b", "2"), typed("V"), typed("T", "a", "1", "b", "1"),
			typed("W", "b", "2"), typed("t", "a", "1"), typed("TU", "a", "1"), typed("U", "a", "2"),
		}, everything, everything.Type("T"), everything.Type("T", "U"), everything.Type("none"), a1, b2, a1.And(b1), a1.And(b2),
			a2.And(b2), a1.Or(b1), a1.Or(a2), a1.Or(b1).Or(b2).Or(a2), a1.Type("U"), a1.Type("T", "V"), a1.And(b1).Type("T"),
			a1.Or(b1).Type("T"), a1.Type("T").Or(b1.Type("U")), a1.And(b1).Or(a2.And(b1)), a1.Or(b2).And(b1.Or(b2)),
			a1.Or(everything.Type("W")), where("a", "none"), a1.And(where("c", "1")), where("c", "1").Or(b2), everything.Or(a1),
			everything.Type("none").Or(everything.Type("V")))
	}},
	{Name: "queries_byte_by_byte", Proves: "values, keys and types are compared byte by byte: case, spaces, accents and signs of pattern languages too", run: func(e *env) {
		values := []string{"", " ", "a", "A", "a ", " a", "aa", "é", "e\u0301", "É", "%", "_", "a%", "*", "?", "'", `"`, `\`, `\\`, "null",
			"1", "1.0", "true", "<&>", "\u2028", "🙂", "𝄞", "\t", "\n", "a\nb", "ß", "ss", "ſ", "İ", "$1", ":", "{}", "[]", "a,b", "-- x",
			"\ufffd", "\ufeff", "\x7f", "\x01"}
		var log []event.Record
		var ask []consistency.Query
		for _, v := range values {
			log = append(log, fact("k", v))
			ask = append(ask, where("k", v))
		}
		keys := []string{"k", "K", "k.a", "k-a", "k_a", "_k", "kk", "k1", "a.b.c", "data", "id", "type", "order", "select"}
		for _, k := range keys {
			log = append(log, typed("keys", k, "x"))
			ask = append(ask, where(k, "x"))
		}
		for _, t := range []string{"t", "T ", "Т", "T%", "T.a", "🙂", "'", "T\u0301"} { // the third is Cyrillic
			log = append(log, typed(t))
			ask = append(ask, everything.Type(t))
		}
		e.ask(log, append(ask, where("k", "b"), where("k", "x").Type("t"))...)
	}},
	{Name: "queries_see_strings_only", Proves: "numbers, booleans, null, arrays and what is nested never match, and a dot in a key is no path", skip: exactMatch, run: func(e *env) {
		e.ask([]event.Record{
			raw("T", `{"k":1}`), raw("T", `{"k":true}`), raw("T", `{"k":null}`), raw("T", `{"k":["1"]}`), raw("T", `{"k":{"k":"1"}}`),
			raw("T", `{"k":{"a":"1"}}`), raw("T", `{"k.a":"1"}`), raw("T", `{"n":{"k":"1"},"k":"2"}`), raw("T", `{"n":{"k":"2"},"k":"1"}`),
			raw("T", `{"k":1.0}`), raw("T", `{"k":[]}`), raw("T", `{"k":{}}`), raw("T", `{"k":"\u0031"}`), raw("T", `{"\u006b":"1"}`),
			raw("T", `{"k":"\ud83d\ude42"}`), raw("T", ` { "k" : "1" } `), raw("T", `{"T":"U","type":"U"}`),
		}, where("k", "1"), where("k", "2"), where("k", "true"), where("k", "null"), where("k", `["1"]`), where("k", ""), where("k", "1.0"),
			where("k.a", "1"), where("k.k", "1"), where("n.k", "1"), where("a", "1"), where("k", `{"a":"1"}`), where("k", "🙂"), where("type", "U"),
			everything.Type("U"), where("k", "[]"), where("k", "{}"))
	}},
	{Name: "long_strings_are_not_indexed", Proves: "a string of 256 bytes can be queried; a longer one is stored whole and meets no query, not for its beginning either", run: func(e *env) {
		x256 := strings.Repeat("x", 256)
		u256 := strings.Repeat("é", 128)
		e.ask([]event.Record{
			fact("k", x256), fact("k", x256+"x"), fact("k", strings.Repeat("x", 255)), fact("k", u256), fact("k", u256+"é"),
			fact("k", x256+"x", "l", "1"), fact("k", strings.Repeat("x", 100_000)),
		}, where("k", x256), where("k", strings.Repeat("x", 255)), where("k", u256), where("l", "1"), where("l", "1").And(where("k", x256)))
	}},
	{Name: "many_values", Proves: "queries find a few events among many", run: func(e *env) {
		s := e.open()
		var m model
		for i := range 4 {
			records := make([]event.Record, 500)
			for n := range records {
				k := "common"
				if n == 77 {
					k = "rare"
				}
				records[n] = fact("k", k, "tenant", "one", "n", strings.Repeat("i", i))
			}
			m = append(m, placed(records, e.save(s, nil, records...))...)
		}
		for _, q := range []consistency.Query{where("k", "rare"), where("k", "rare").And(where("tenant", "one")),
			where("tenant", "one").And(where("k", "rare")).And(where("n", "ii")), where("k", "rare").Or(where("n", "i").And(where("k", "rare")))} {
			e.asks(s, m, q)
		}
	}},
}

func exactMatch(f Features) string {
	if f.ScalarsMatch {
		return "the store's server matches what is not a string"
	}
	return ""
}

// ask stores the log and asks all queries of it.
func (e *env) ask(log []event.Record, queries ...consistency.Query) {
	s := e.open()
	m := e.fill(s, log...)
	for _, q := range queries {
		e.asks(s, m, q)
	}
	// Observations last: those that hold add to the log.
	for _, q := range queries {
		e.observe(s, &m, q)
	}
}

// asks compares all reads of q with the model.
func (e *env) asks(s eventstore.Store, m model, q consistency.Query) {
	head := m[len(m)-1].Position
	want := m.result(eventstore.Part{Query: q})
	got := e.snapshot(s, eventstore.Part{Query: q}, eventstore.Part{Query: q, LatestOnly: true})
	e.same(want.Records, got[0].Records, "history of %s", q)
	e.same(m.result(eventstore.Part{Query: q, LatestOnly: true}).Records, got[1].Records, "latest of %s", q)
	if got[0].Last != want.Last || got[1].Last != want.Last {
		e.failf("the latest match of %s is at %s, Last is %s in a history and %s of the latest", q, want.Last, got[0].Last, got[1].Last)
	}
	e.same(want.Records, e.pages(s, q, none, 0, head), "pages of %s", q)
}

// observe appends with the right position of q's latest match, and with others.
func (e *env) observe(s eventstore.Store, m *model, q consistency.Query) {
	last := m.last(q, none)
	wrong := []consistency.Position{none, (*m)[0].Position, (*m)[len(*m)-1].Position, (*m)[e.rng.IntN(len(*m))].Position}
	for _, p := range wrong {
		if p != last {
			e.refuse(s, eventstore.Conflict, seen(at(q, p)), []event.Record{typed("Observed")})
		}
	}
	r := []event.Record{typed("Observed")}
	*m = append(*m, placed(r, e.save(s, seen(at(q, last)), r...))...)
}
