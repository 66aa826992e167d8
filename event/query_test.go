package event

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Enrolled and its neighbours: version 1 had no student of its own key.
type (
	Enrolled struct { // version 3
		Course  string    `json:"courseId"`
		Student uuid.UUID `json:"studentId"`
		Seat    int       `json:"seat"`
		Paid    int64     `json:"paid,string"`
		Twice   string    `json:"twice,string"`
	}
	enrolledV1 struct {
		Course string `json:"course"`
		Who    string `json:"studentId"`
	}
	enrolledV2 struct {
		Course string `json:"courseId"`
		Who    string `json:"studentId"`
		Note   string `json:"note"`
	}
	CourseOpened struct {
		Course string            `json:"courseId"`
		Seats  []string          `json:"seats"`
		Labels map[string]string `json:"labels"`
		Owner  struct {
			Name string `json:"name"`
		} `json:"owner"`
	}
)

func (Enrolled) EventType() string     { return "Enrolled" }
func (CourseOpened) EventType() string { return "CourseOpened" }

func courseCodec(more ...Kind) *Codec {
	return NewCodec(append(more, Of[CourseOpened]().Formerly("CourseCreated"), Of[Enrolled](
		From(func(o enrolledV1) enrolledV2 { return enrolledV2{Course: o.Course} }),
		From(func(o enrolledV2) Enrolled { return Enrolled{Course: o.Course} }),
	).Formerly("SeatTaken", "StudentEnrolled"))...)
}

func where(key string) consistency.Query { return consistency.Where(key, "x") }

func TestQueryRefuses(t *testing.T) {
	c := courseCodec()
	for _, test := range []struct {
		query consistency.Query
		is    error
		why   string
	}{
		{where("courseID"), ErrQueryKey, `"courseID" is not in any event type of the codec (did you mean "courseId"?)`},
		{where("corseId"), ErrQueryKey, `(did you mean "courseId"?)`},
		{where("stuedntId"), ErrQueryKey, `(did you mean "studentId"?)`},
		{where("Student"), ErrQueryKey, `(did you mean "studentId", the key of field Student?)`},
		{where("amount"), ErrQueryKey, `"amount" is not in any event type of the codec: keys there are "course", "courseId", "note", "paid", "studentId"`},
		{where("name"), ErrQueryKey, `"name" is not in any event type`}, // nested
		{where("seat"), ErrQueryKey, `"seat" is never a JSON string: field Enrolled.Seat is of type int: store it as a string`},
		{where("seats"), ErrQueryKey, `field CourseOpened.Seats is of type []string: store what is queried in a string of its own`},
		{where("owner"), ErrQueryKey, `field CourseOpened.Owner is of type struct`},
		{where("labels"), ErrQueryKey, `field CourseOpened.Labels is of type map`},
		{where("twice"), ErrQueryKey, `field Enrolled.Twice is a string with the option ",string", which stores it with quotes inside`},
		{where("studentId").Type("CourseOpened"), ErrQueryKey, `"studentId" is not in CourseOpened, only in others such as "Enrolled"`},
		{where("courseId").And(where("amount")), ErrQueryKey, `"amount" is not in`},
		{where("note").And(where("course")), ErrQueryKey, `no single one of any event type of the codec has all of the keys "course", "note" as strings`},
		{where("courseId").Or(where("corseId")), ErrQueryKey, `"corseId" is not in`},
		{where("refusal").Type(MarkerType), ErrQueryKey, `"refusal" is not in ccc.CommandRecorded`},
		{where("courseId").Type(MarkerType), ErrQueryKey, `"courseId" is not in ccc.CommandRecorded, only in others such as "CourseOpened"`},

		{consistency.All().Type("Enroled"), ErrUnknownType, `"Enroled" (did you mean "Enrolled"?)`},
		{consistency.All().Type("Enrolled", "Expelled"), ErrUnknownType, `"Expelled": use event.TypeOf, or add the type to event.NewCodec`},
		{consistency.All().Type("event.CourseOpened"), ErrUnknownType, `(did you mean "CourseOpened"?)`},
		{where("courseId").Or(where("courseId").Type("X")), ErrUnknownType, `"X"`},

		// Upcasts run after the match.
		{where("courseId"), ErrQueryKey, `"courseId" is not a string of version 1 of "Enrolled", only of another version`},
		{where("courseId").Type("Enrolled"), ErrQueryKey, `events of version 1 would be left out: join a query for them by Or (version 1 has "course", "studentId")`},
		{where("courseId").And(where("studentId")).Type("SeatTaken"), ErrQueryKey, `version 1`},
		{where("paid"), ErrQueryKey, `"paid" is not a string of version 1`},
		{where("paid").Or(where("course")), ErrQueryKey, `"paid" is not a string of version 2`},
		{where("course"), ErrQueryKey, `"course" is not a string of version 3 of "Enrolled"`},
		{where("note").Type("Enrolled"), ErrQueryKey, `"note" is not a string of version 3`},
		{where("courseId").Or(where("courseId").And(where("course"))), ErrQueryKey, `no single one of`},
		{where("courseId").Or(where("courseId").Type("CourseOpened")), ErrQueryKey, `version 1 of "Enrolled"`}, // the other one meets another type

		{consistency.Query{}, consistency.ErrQuery, "it can match nothing"},
		{consistency.Where("courseId", strings.Repeat("x", 257)), consistency.ErrQuery, "only strings up to 256"},
	} {
		q, err := c.Query(test.query)
		require.ErrorIs(t, err, test.is, "%s", test.query)
		require.ErrorIs(t, err, consistency.ErrQuery, "%s", test.query)
		require.ErrorContains(t, err, test.why, "%s", test.query)
		require.True(t, q.IsZero())
	}
	_, err := NewCodec().Query(where("a"))
	require.ErrorContains(t, err, "nothing there can be queried")
	_, err = NewCodec(Of[manyKeys]()).Query(where("zzzzzzzz"))
	require.ErrorContains(t, err, `"L" and 1 more`)
}

type manyKeys struct{ A, B, C, D, E, F, G, H, I, J, K, L, M string }

func (manyKeys) EventType() string { return "ManyKeys" }

func TestQueryTakes(t *testing.T) {
	c := courseCodec()
	for _, test := range []struct{ query, want consistency.Query }{
		{consistency.All(), consistency.All()},
		{where("studentId"), where("studentId")}, // of all versions, a UUID in one of them
		{where("courseId").Or(where("course")), where("courseId").Or(where("course"))},
		{where("courseId").Type("CourseOpened"), where("courseId").Type("CourseCreated", "CourseOpened")},
		{where("courseId").Type("CourseCreated"), where("courseId").Type("CourseCreated", "CourseOpened")},
		{where("studentId").Type("SeatTaken"), where("studentId").Type("Enrolled", "SeatTaken", "StudentEnrolled")},
		{
			where("courseId").Type("Enrolled", "CourseOpened").Or(where("course").Type("StudentEnrolled")),
			where("courseId").Type("Enrolled", "SeatTaken", "StudentEnrolled", "CourseOpened", "CourseCreated").Or(where("course").Type("Enrolled", "SeatTaken", "StudentEnrolled")),
		},
		{where("courseId").Or(consistency.All()), where("courseId").Or(consistency.All())},
		{where("commandId"), where("commandId")},
		{where("commandId").Type(MarkerType), where("commandId").Type(MarkerType)},
		{consistency.All().Type(MarkerType, "Enrolled"), consistency.All().Type(MarkerType, "Enrolled", "SeatTaken", "StudentEnrolled")},
		{where("commandId").And(where("studentId")), where("commandId").And(where("studentId"))},
		{where("paid").Or(where("studentId")), where("paid").Or(where("studentId"))},
	} {
		q, err := c.Query(test.query)
		require.NoError(t, err, "%s", test.query)
		require.Equal(t, test.want.String(), q.String())
		again, err := c.Query(q)
		require.NoError(t, err)
		require.Equal(t, q.String(), again.String())
	}

	// An open type has every key, one of them may be the key meant.
	open := courseCodec(Of[Free]())
	_, err := open.Query(where("anything").And(where("else")))
	require.NoError(t, err)
	_, err = open.Query(where("anything").Type("CourseOpened"))
	require.ErrorIs(t, err, ErrQueryKey)
	_, err = open.Query(where("seat").Type("Enrolled"))
	require.ErrorIs(t, err, ErrQueryKey)

	_, err = NewCodec(Of[CourseOpened]().Formerly(manyNames(399)...)).Query(consistency.All().Type("CourseOpened"))
	require.NoError(t, err)
	_, err = NewCodec(Of[CourseOpened]().Formerly(manyNames(400)...)).Query(consistency.All().Type("CourseOpened"))
	require.ErrorIs(t, err, consistency.ErrQuery)
	require.ErrorContains(t, err, "with the former names of its types")
}

func manyNames(n int) []string {
	var out []string
	for i := range n {
		out = append(out, "N"+strings.Repeat("x", i%200)+string(rune('a'+i/200)))
	}
	return out
}

// Against a naive reading of the rules, on sample data of every version.
func TestQueryLikeNaive(t *testing.T) {
	pool := []Kind{Of[Free](), Of[Refused](), Of[*Posted](), Of[Opened](From(func(o openedV1) openedV2 { return openedV2(o) }), From(splitName)).Formerly("OldOpened"), Of[manyKeys]()}
	keys := []string{"courseId", "course", "studentId", "note", "paid", "seat", "account", "accountId", "owner", "cents", "A", "Code", "commandId", "nope"}
	taken, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, 3, func(k Kind) string { return k.name }).Draw(t, "kinds")
		many := rapid.SampledFrom([]int{0, 0, 70}).Draw(t, "slots before") // more than one word of slots
		for i := range many {
			chosen = append([]Kind{fakeKind(i)}, chosen...)
		}
		c := courseCodec(chosen...)
		names := append(c.Types()[:min(12, len(c.Types()))], "Enrolled", "SeatTaken", MarkerType)
		var q consistency.Query
		for range rapid.IntRange(1, 3).Draw(t, "criteria") {
			one := consistency.All().Type(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "types")...)
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 2, rapid.ID[string]).Draw(t, "keys") {
				one = one.And(where(key))
			}
			q = q.Or(one)
		}
		want := naiveQuery(c, q)
		got, err := c.Query(q)
		require.Equal(t, want, err == nil, "%s: %v", q, err)
		if err != nil {
			refused++
			return
		}
		taken++
		// The answer meets under every name what the question meets under any.
		for _, k := range c.kinds {
			for _, v := range k.versions {
				data := sample(v.goType)
				met := false
				for _, name := range k.names {
					met = met || q.Matches(name, data)
				}
				for _, name := range k.names {
					require.Equal(t, met, got.Matches(name, data), "%s became %s, on %s %s", q, got, name, data)
				}
			}
		}
	})
	require.Positive(t, taken)
	require.Positive(t, refused)
}

func fakeKind(i int) Kind {
	k := Of[Closed]()
	k.name = "Fake" + string(rune('A'+i%26)) + string(rune('a'+i/26))
	// Every kind needs a Go type of its own.
	k.goType = reflect.StructOf([]reflect.StructField{{Name: "X" + k.name, Type: reflect.TypeFor[int]()}})
	return k
}

// sample is data of a version with "x" wherever a string may be.
func sample(t reflect.Type) json.RawMessage {
	if t == reflect.TypeFor[Free]() {
		return nil
	}
	v := reflect.New(t)
	fill(v.Elem())
	data, err := json.Marshal(v.Interface())
	if err != nil {
		panic(err)
	}
	var top map[string]any
	if err := json.Unmarshal(data, &top); err != nil {
		panic(err)
	}
	for key, value := range top {
		if _, ok := value.(string); ok && key != "twice" {
			top[key] = "x"
		}
	}
	top["commandId"] = "x"
	data, err = json.Marshal(top)
	if err != nil {
		panic(err)
	}
	return data
}

func naiveQuery(c *Codec, q consistency.Query) bool {
	// What meets what, on the samples, under any of the kind's names.
	type form struct {
		kind    *kind
		version int
	}
	meets := func(cr consistency.Criterion, f form) bool {
		typed := len(cr.Types) == 0 || slices.ContainsFunc(f.kind.names, func(n string) bool { return slices.Contains(cr.Types, n) })
		data := sample(f.kind.versions[f.version].goType)
		if data == nil { // open
			return typed
		}
		cr.Types = nil
		tags, _ := consistency.Tags(data)
		return typed && cr.Matches("", tags)
	}
	criteria := q.Criteria()
	for _, cr := range criteria {
		onlyCommand := true
		for _, t := range cr.Tags {
			onlyCommand = onlyCommand && t.Key == "commandId"
		}
		any, anyCurrent := onlyCommand, false
		for _, k := range c.kinds {
			for i := range k.versions {
				if meets(cr, form{k, i}) {
					any = true
					anyCurrent = anyCurrent || i == len(k.versions)-1
				}
			}
		}
		if !any {
			return false
		}
		for _, k := range c.kinds {
			last := len(k.versions) - 1
			some := false
			for i := range k.versions {
				some = some || meets(cr, form{k, i})
			}
			if !some || !meets(cr, form{k, last}) && anyCurrent {
				continue
			}
			for i := range k.versions {
				if i < last && !meets(cr, form{k, last}) {
					continue
				}
				if !slices.ContainsFunc(criteria, func(cr consistency.Criterion) bool { return meets(cr, form{k, i}) }) {
					return false
				}
			}
		}
	}
	return true
}

func TestQueryAllocatesNothing(t *testing.T) {
	c := courseCodec()
	for _, q := range []consistency.Query{
		where("studentId"), where("studentId").Type("Enrolled", "SeatTaken", "StudentEnrolled"), where("courseId").Or(where("course")),
		where("courseId").And(where("commandId")).Type("CourseOpened", "CourseCreated"),
	} {
		_, err := c.Query(q)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = c.Query(q) }), "%s", q)
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"ab", "ba", 1}, {"accountId", "acountId", 1}, {"accountId", "ACCOUNTID", 0},
		{"abc", "axc", 1}, {"kitten", "sitting", 3}, {"über", "uber", 1}, {"abcd", "badc", 2},
	} {
		require.Equal(t, test.want, distance(test.a, test.b), "%q %q", test.a, test.b)
		require.Equal(t, test.want, distance(test.b, test.a), "%q %q", test.b, test.a)
	}
	require.Empty(t, closest("id", []string{"at", "courseId"}))
	require.Equal(t, "accountId", closest("acountid", []string{"account", "accountId", "amount"}))
}

func BenchmarkQuery(b *testing.B) {
	c := courseCodec()
	for name, q := range map[string]consistency.Query{
		"plain":   where("studentId"),
		"typed":   where("studentId").Type("Enrolled", "SeatTaken", "StudentEnrolled"),
		"aliases": where("studentId").Type("Enrolled"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Query(q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
