package consistency

import (
	"slices"
	"strconv"
	"strings"
)

// Query says which events are meant: those of given types, with given values
// under top-level keys of their data. It is an OR of criteria. A Query is a
// value: its methods return new ones, and it may be shared between goroutines.
//
// The zero Query matches nothing; stores refuse it, as they refuse every query
// that [Query.Validate] does.
type Query struct{ criteria []Criterion }

// Criterion is one branch of a query: an event matches if its type is one of
// Types (or Types is empty) and each of Tags stands in its data.
type Criterion struct {
	Types []string // sorted, no doubles
	Tags  []Tag    // sorted by key, one per key
}

// Tag is a top-level key of an event's data and the string that stands there.
type Tag struct{ Key, Value string }

// Where meets events whose data has the string value at the top-level key. It
// is compared byte by byte. A dot in a key is a plain character, not a path.
func Where(key, value string) Query {
	one := &struct { // in one piece: queries are made for each command
		criteria [1]Criterion
		tags     [1]Tag
	}{tags: [1]Tag{{key, value}}}
	one.criteria[0].Tags = one.tags[:]
	return Query{one.criteria[:]}
}

// All meets every event.
func All() Query { return Query{[]Criterion{{}}} }

// Type narrows q to events of one of the named types. Without names it is q.
func (q Query) Type(names ...string) Query {
	if len(names) == 0 {
		return q
	}
	types := slices.Compact(slices.Sorted(slices.Values(names)))
	return q.And(Query{[]Criterion{{Types: types}}})
}

// And meets what both queries meet. One that can meet nothing, such as two
// different values under one key, is the zero Query.
func (q Query) And(other Query) Query {
	var out Query
	for _, a := range q.criteria {
		for _, b := range other.criteria {
			if c, ok := a.and(b); ok {
				out = out.with(c)
			}
		}
	}
	return out
}

// Or meets what either query meets.
func (q Query) Or(other Query) Query {
	out := Query{slices.Clone(q.criteria)}
	for _, c := range other.criteria {
		out = out.with(c)
	}
	return out
}

// AddTypes adds other names of the types that q names: more returns those of
// one type, in any order, itself included or not.
func (q Query) AddTypes(more func(name string) []string) Query {
	out := Query{make([]Criterion, 0, len(q.criteria))}
	for _, c := range q.criteria {
		types := slices.Clone(c.Types)
		for _, name := range c.Types {
			types = append(types, more(name)...)
		}
		slices.Sort(types)
		out = out.with(Criterion{slices.Compact(types), c.Tags})
	}
	return out
}

// Criteria returns the branches of q. They must not be changed.
func (q Query) Criteria() []Criterion { return q.criteria }

// IsZero says whether q can meet nothing.
func (q Query) IsZero() bool { return len(q.criteria) == 0 }

func (q Query) with(c Criterion) Query {
	for _, have := range q.criteria {
		if slices.Equal(have.Types, c.Types) && slices.Equal(have.Tags, c.Tags) {
			return q
		}
	}
	q.criteria = append(q.criteria, c)
	return q
}

func (c Criterion) and(d Criterion) (Criterion, bool) {
	out := Criterion{Types: c.Types, Tags: c.Tags}
	switch {
	case len(c.Types) == 0:
		out.Types = d.Types
	case len(d.Types) > 0:
		out.Types = nil
		for _, t := range c.Types {
			if slices.Contains(d.Types, t) {
				out.Types = append(out.Types, t)
			}
		}
		if len(out.Types) == 0 {
			return Criterion{}, false
		}
	}
	if len(d.Tags) == 0 {
		return out, true
	}
	out.Tags = slices.Concat(c.Tags, d.Tags)
	slices.SortFunc(out.Tags, func(a, b Tag) int {
		if k := strings.Compare(a.Key, b.Key); k != 0 {
			return k
		}
		return strings.Compare(a.Value, b.Value)
	})
	out.Tags = slices.Compact(out.Tags)
	for i := 1; i < len(out.Tags); i++ {
		if out.Tags[i].Key == out.Tags[i-1].Key {
			return Criterion{}, false
		}
	}
	return out, true
}

// String returns a text that tells q apart from every other query. It is for
// messages and for keys of maps; nothing reads it back.
func (q Query) String() string {
	var buf [128]byte
	b := buf[:0]
	for i, c := range q.criteria {
		if i > 0 {
			b = append(b, " OR "...)
		}
		b = c.append(b)
	}
	if len(q.criteria) == 0 {
		b = append(b, "nothing"...)
	}
	return string(b)
}

func (c Criterion) append(b []byte) []byte {
	if len(c.Types)+len(c.Tags) == 0 {
		return append(b, "all"...)
	}
	for i, t := range c.Types {
		b = append(b, []string{"type ", "|"}[min(i, 1)]...)
		b = strconv.AppendQuote(b, t)
	}
	for i, t := range c.Tags {
		if i > 0 || len(c.Types) > 0 {
			b = append(b, ' ')
		}
		if validKey(t.Key) {
			b = append(b, t.Key...)
		} else { // it could look like more than a key
			b = strconv.AppendQuote(b, t.Key)
		}
		b = append(b, '=')
		b = strconv.AppendQuote(b, t.Value)
	}
	return b
}

// Observation is what a decision saw of a query: the position of its latest
// match, zero where there was none. It holds as long as the latest match of
// Query is exactly at At.
type Observation struct {
	Query Query
	At    Position
}
