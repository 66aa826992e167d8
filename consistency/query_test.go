package consistency

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var plainKeys = []string{"a", "b", "a.b"}

// event is drawn with few keys and values, so that queries meet it.
func someEvent(t *rapid.T) (eventType, data string) {
	var parts []string
	for _, key := range plainKeys {
		if i := rapid.IntRange(0, 2).Draw(t, "value"); i < 2 {
			parts = append(parts, fmt.Sprintf("%q:%q", key, someValues[i]))
		}
	}
	return rapid.SampledFrom([]string{"A", "B", "D"}).Draw(t, "type"), "{" + strings.Join(parts, ",") + "}"
}

func TestQueryAlgebra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, r := someQuery(t, plainKeys, someValues[:2]), someQuery(t, plainKeys, someValues[:2])
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B", "C"}), 0, 4).Draw(t, "names")
		both, either, typed := q.And(r), q.Or(r), q.Type(names...)
		before := []string{q.String(), r.String()}
		for range 5 {
			eventType, data := someEvent(t)
			is := func(q Query) bool { return q.Matches(eventType, []byte(data)) }
			require.Equal(t, is(q) && is(r), is(both), "%s AND %s on %s %s", q, r, eventType, data)
			require.Equal(t, is(q) || is(r), is(either), "%s OR %s on %s %s", q, r, eventType, data)
			require.Equal(t, is(q) && (len(names) == 0 || slices.Contains(names, eventType)), is(typed), "%s of %v on %s %s", q, names, eventType, data)
			require.True(t, All().Matches(eventType, []byte(data)))
			require.False(t, Query{}.Matches(eventType, []byte(data)))
		}
		require.Equal(t, before, []string{q.String(), r.String()}, "a query changed under its callers")
		for _, x := range []Query{both, either, typed} {
			checkCanonical(t, x)
		}
		require.Equal(t, q.Or(Query{}).String(), q.String())
		require.True(t, q.And(Query{}).IsZero())
	})
}

// checkCanonical: stores rely on the order of types and tags.
func checkCanonical(t *rapid.T, q Query) {
	for i, c := range q.Criteria() {
		require.True(t, slices.IsSorted(c.Types) && len(slices.Compact(slices.Clone(c.Types))) == len(c.Types), "%v", c)
		for j := 1; j < len(c.Tags); j++ {
			require.Less(t, c.Tags[j-1].Key, c.Tags[j].Key)
		}
		for _, d := range q.Criteria()[:i] {
			require.False(t, slices.Equal(c.Types, d.Types) && slices.Equal(c.Tags, d.Tags), "%s: a criterion stands twice", q)
		}
	}
}

// Queries that grow from one shared part do not write into each other.
func TestQueriesShareNothingThatChanges(t *testing.T) {
	base := Where("a", "1").Or(Where("b", "1")).Or(Where("c", "1"))
	x, y := base.Or(Where("x", "1")), base.Or(Where("y", "1"))
	require.Equal(t, `a="1" OR b="1" OR c="1" OR x="1"`, x.String())
	require.Equal(t, `a="1" OR b="1" OR c="1" OR y="1"`, y.String())
	p, q := base.Type("A").And(Where("p", "1")), base.Type("A").And(Where("q", "1"))
	require.Contains(t, p.String(), `p="1"`)
	require.NotContains(t, p.String(), `q="1"`)
	require.Contains(t, q.String(), `q="1"`)
}

func TestAddTypes(t *testing.T) {
	more := func(name string) []string {
		return map[string][]string{"A": {"Z", "A", "B"}, "C": {"D", "C"}}[name]
	}
	q := Where("a", "1").Type("A").Or(Where("a", "1").Type("A", "B")).Or(All().Type("C")).Or(Where("b", "1"))
	before := q.String()
	require.Equal(t, `type "A"|"B"|"Z" a="1" OR type "C"|"D" OR b="1"`, q.AddTypes(more).String())
	require.Equal(t, before, q.String())
	require.Equal(t, before, q.AddTypes(func(string) []string { return nil }).String())
	require.True(t, Query{}.AddTypes(more).IsZero())
}

func TestQueryStringTellsApart(t *testing.T) {
	all := []Query{
		{}, All(), Where("a", "1"), Where("a", `1" b="2`), Where("a", "1").And(Where("b", "2")), Where("a", "1").Or(Where("b", "2")),
		Where(`a="1" b`, "2"), Where("all", ""), Where("type", "A"), All().Type("A"), All().Type("A", "B"), All().Type(`A"|"B`),
		All().Type("A").Or(All().Type("B")), Where("a", "1").Type("A"), Where("nothing", ""), Where("a", `1 OR b="2"`), Where("", "a"), Where(`a=""`, ""),
	}
	texts := map[string]Query{}
	for _, q := range all {
		if other, ok := texts[q.String()]; ok {
			require.Equal(t, other.Criteria(), q.Criteria(), "both are %s", q)
		}
		texts[q.String()] = q
	}
	require.Len(t, texts, len(all))
	rapid.Check(t, func(t *rapid.T) {
		q, r := someQuery(t, someKeys, someValues), someQuery(t, someKeys, someValues)
		same := slices.EqualFunc(q.Criteria(), r.Criteria(), func(c, d Criterion) bool {
			return slices.Equal(c.Types, d.Types) && slices.Equal(c.Tags, d.Tags)
		})
		require.Equal(t, same, q.String() == r.String(), "%s and %s", q, r)
	})
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", MaxValue)
	for _, q := range []Query{
		All(), Where("a", ""), Where("a", long), Where("a.b-c_D9", "\U0001F600"), Where("_a", "x"), Where(CommandKey, "x"), Where(long, "x"),
		All().Type(long), Where("a", "1").Or(All()), All().Type(manyTypes(MaxCriteria)...),
	} {
		require.NoError(t, q.Validate(), "%s", q)
	}
	for why, q := range map[string]Query{
		"can match nothing":                     {},
		"it can match nothing":                  Where("a", "1").And(Where("a", "2")),
		"cannot be asked: it can match nothing": All().Type("A").Type("B"),
		"only strings up to 256 are indexed":    Where("a", long+"x"),
		`value "\xff": it is not UTF-8`:         Where("a", "\xff"),
		"it holds U+0000":                       Where("a", "x\x00"),
		`key ""`:                                Where("", "x"),
		`key "a b"`:                             Where("a b", "x"),
		`key "9a"`:                              Where("9a", "x"),
		`key ".a"`:                              Where(".a", "x"),
		`key "é"`:                               Where("é", "x"),
		`key "a[": a key is`:                    Where("a[", "x"),
		`key "a@"`:                              Where("a@", "x"),
		`key "eventType"`:                       Where("eventType", "x"),
		`key "__a"`:                             Where("__a", "x"),
		`key "xxx`:                              Where(long+"x", "x"),
		`event type "" must be`:                 All().Type(""),
		`event type "xxx`:                       All().Type(long + "x"),
		`event type "\xff"`:                     All().Type("\xff"),
		"401 criteria (each type counts)":       All().Type(manyTypes(MaxCriteria + 1)...),
		"401 criteria":                          All().Type(manyTypes(MaxCriteria)...).Or(Where("a", "1")),
	} {
		err := q.Validate()
		require.ErrorIs(t, err, ErrQuery, "%s", q)
		require.ErrorContains(t, err, why)
	}
}

func manyTypes(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("T%d", i)
	}
	return out
}

func TestReserved(t *testing.T) {
	for key, want := range map[string]bool{
		"commandId": true, "eventType": true, "__": true, "__x": true, "_x": false, "x__": false, "commandID": false, "": false, "accountId": false,
	} {
		require.Equal(t, want, Reserved(key), key)
	}
}
