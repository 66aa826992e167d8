package consistency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// naive decides as [Tags] and [Query.Matches] do, the slow way: on what
// encoding/json reads.
type naive struct {
	ok   bool
	keys map[string]string // those that can be queried
}

func naiveRead(data []byte) naive {
	if !utf8.Valid(data) || !json.Valid(data) {
		return naive{}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if open, _ := d.Token(); open != json.Delim('{') {
		return naive{}
	}
	n := naive{ok: true, keys: map[string]string{}}
	seen := map[string]bool{}
	for d.More() {
		token, _ := d.Token()
		key := token.(string)
		var raw json.RawMessage
		if d.Decode(&raw) != nil || seen[key] || badKey(key) {
			return naive{}
		}
		seen[key] = true
		var value any
		if json.Unmarshal(raw, &value) != nil {
			return naive{}
		}
		if s, ok := value.(string); ok && len(s) <= MaxValue {
			n.keys[key] = s
		}
	}
	if badText(data) {
		return naive{}
	}
	return n
}

func badKey(key string) bool {
	return key == "eventType" || strings.HasPrefix(key, "__")
}

// badText finds U+0000 and lone surrogates in any string of the data, escape by
// escape.
func badText(data []byte) bool {
	in := bufio{data}
	inString := false
	for {
		switch c, err := in.next(); {
		case err != nil:
			return false
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			if c, _ = in.next(); c != 'u' {
				continue
			}
			switch code := in.hex(); {
			case code == 0, code >= 0xDC00 && code <= 0xDFFF:
				return true
			case code >= 0xD800 && code <= 0xDBFF:
				a, _ := in.next()
				b, _ := in.next()
				if a != '\\' || b != 'u' {
					return true
				}
				if low := in.hex(); low < 0xDC00 || low > 0xDFFF {
					return true
				}
			}
		}
	}
}

type bufio struct{ rest []byte }

func (b *bufio) next() (byte, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	c := b.rest[0]
	b.rest = b.rest[1:]
	return c, nil
}

func (b *bufio) hex() (code int) {
	for range 4 {
		c, _ := b.next()
		var digit int
		_, _ = fmt.Sscanf(string(c), "%x", &digit)
		code = code*16 + digit
	}
	return code
}

func (n naive) matches(c Criterion, eventType string) bool {
	if len(c.Types) > 0 && !slices.Contains(c.Types, eventType) {
		return false
	}
	for _, t := range c.Tags {
		if v, ok := n.keys[t.Key]; !ok || v != t.Value {
			return false
		}
	}
	return true
}

var (
	someKeys   = []string{"a", "b", "a.b", "A", "commandId", "é", "k\"q", "__x", "eventType", "", "a\x00", "\U0001F600"}
	someValues = []string{"x", "y", "", "ü", "a\"b\\", "\n\t", "\U0001F600", "{}", "}", strings.Repeat("x", MaxValue), strings.Repeat("x", MaxValue+1), strings.Repeat("é", MaxValue/2), strings.Repeat("é", MaxValue/2+1)}
)

// jsonText writes a string in one of the many ways JSON has for it.
func jsonText(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	escapes := rapid.IntRange(0, 3).Draw(t, "escapes")
	for _, r := range s {
		switch {
		case r < ' ' || escapes == 0 && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case escapes == 1 && r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04X\u%04X`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			b.WriteRune(r)
		}
	}
	// Now and then something that cannot be stored, or nearly.
	b.WriteString(rapid.SampledFrom(append(make([]string, 60), `\u0000`, `\ud800`, `\udc00`, `\ud83d\u0041`, `\ud83d\n`, `\\u0000`, `\/`, "\xff")).Draw(t, "odd"))
	b.WriteByte('"')
	return b.String()
}

func jsonValue(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t "}).Draw(t, "space")
	switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
	case kind < 5:
		return space + jsonText(t, rapid.SampledFrom(someValues).Draw(t, "value")) + space
	case kind == 5 && depth > 0:
		return space + jsonObject(t, depth-1) + space
	case kind == 6 && depth > 0:
		parts := make([]string, rapid.IntRange(0, 3).Draw(t, "elements"))
		for i := range parts {
			parts[i] = jsonValue(t, depth-1)
		}
		return space + "[" + strings.Join(parts, ",") + "]" + space
	}
	return space + rapid.SampledFrom([]string{"0", "-1.5e3", "9007199254740993", "true", "false", "null"}).Draw(t, "literal") + space
}

func jsonObject(t *rapid.T, depth int) string {
	parts := make([]string, rapid.IntRange(0, 4).Draw(t, "keys"))
	for i := range parts {
		parts[i] = jsonText(t, rapid.SampledFrom(someKeys).Draw(t, "key")) + ":" + jsonValue(t, depth)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func someData(t *rapid.T) string {
	data := jsonObject(t, 3)
	switch rapid.IntRange(0, 19).Draw(t, "whole") {
	case 0:
		return jsonValue(t, 3)
	case 1:
		return data[:rapid.IntRange(0, len(data)).Draw(t, "cut")]
	case 2:
		return data + rapid.SampledFrom([]string{" ", "x", "{}", "\x00"}).Draw(t, "after")
	}
	return data
}

func someQuery(t *rapid.T, keys, values []string) Query {
	q := All()
	for range rapid.IntRange(0, 6).Draw(t, "steps") {
		var other Query
		switch rapid.IntRange(0, 5).Draw(t, "other") {
		case 0:
			other = All().Type(rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B", "C"}), 0, 3).Draw(t, "types")...)
		default:
			other = Where(rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(values).Draw(t, "value"))
		}
		switch rapid.IntRange(0, 3).Draw(t, "op") {
		case 0:
			q = q.Or(other)
		case 1:
			q = other
		default:
			q = q.And(other)
		}
	}
	return q
}

func TestMatchesLikeANaiveMatcher(t *testing.T) {
	matched, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		data := someData(t)
		want := naiveRead([]byte(data))
		tags, err := Tags([]byte(data))
		if !want.ok {
			refused++
			require.ErrorIs(t, err, ErrData, "%s", data)
			require.Empty(t, tags)
		} else {
			require.NoError(t, err, "%s", data)
			require.Len(t, tags, len(want.keys), "%s", data)
			for _, tag := range tags {
				value, ok := want.keys[tag.Key]
				require.True(t, ok, "%s: %q", data, tag.Key)
				require.Equal(t, value, tag.Value)
			}
		}
		for range 10 {
			q := someQuery(t, someKeys, someValues)
			eventType := rapid.SampledFrom([]string{"A", "B", "D"}).Draw(t, "type")
			expect := false
			for _, c := range q.Criteria() {
				expect = expect || want.matches(c, eventType)
			}
			require.Equal(t, expect, q.Matches(eventType, []byte(data)), "%s on %s %s", q, eventType, data)
			if expect && want.ok && len(q.Criteria()[0].Tags) > 0 {
				matched++
			}
		}
	})
	if !testing.Short() { // few checks may miss one of the two
		require.Positive(t, matched, "the test meets nothing")
		require.Positive(t, refused, "the test refuses nothing")
	}
}

func TestTagsRefuses(t *testing.T) {
	for data, why := range map[string]string{
		``:                                 "not JSON",
		`{`:                                "not JSON",
		`{} x`:                             "not JSON",
		"{\"a\":\"\xff\"}":                 "UTF-8",
		`[]`:                               "not a JSON object",
		`"a"`:                              "not a JSON object",
		`null`:                             "not a JSON object",
		`{"a":"1","a":"2"}`:                `"a" stands twice`,
		`{"a":"1","\u0061":2}`:             `"a" stands twice`,
		`{"eventType":"x"}`:                `"eventType" is reserved`,
		`{"__a":1}`:                        `"__a" is reserved`,
		`{"a":"\u0000"}`:                   "U+0000",
		`{"a\u0000":1}`:                    "U+0000",
		`{"a":{"b":["\u0000"]}}`:           "U+0000, under key \"a\"",
		`{"a":["\ud800"]}`:                 "lone surrogate",
		`{"a":"\udc00"}`:                   "lone surrogate",
		`{"a":"\ud800\ud800"}`:             "lone surrogate",
		`{"a":"\ud800"` + `,"b":"\udc00"}`: "lone surrogate",
	} {
		_, err := Tags([]byte(data))
		require.ErrorIs(t, err, ErrData, "%s", data)
		require.ErrorContains(t, err, why, "%s", data)
		require.False(t, All().And(Where("a", "1")).Matches("A", []byte(data)))
	}
}

func TestTagsTakesManyKeys(t *testing.T) { // more than the set of keys holds without a map
	data := map[string]string{}
	for i := range 100 {
		data[fmt.Sprintf("key%d", i)] = "v"
	}
	text, err := json.Marshal(data)
	require.NoError(t, err)
	tags, err := Tags(text)
	require.NoError(t, err)
	require.Len(t, tags, 100)
	for _, key := range []string{"key0", "key15", "key16", "key99"} {
		_, err = Tags(append(text[:len(text)-1:len(text)-1], []byte(`,"`+key+`":1}`)...))
		require.ErrorContains(t, err, "stands twice", key)
	}
}

func TestTagsAllocatesLittle(t *testing.T) {
	data := []byte(`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","accountId":"ada","cents":"30","note":{"by":"bob"}}`)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = Tags(data) }), 3.0)
}

func BenchmarkTags(b *testing.B) {
	data := []byte(`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","accountId":"ada","cents":"30","note":{"by":"bob"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Tags(data); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTagsOfLargeData(t *testing.T) {
	data := []byte(`{"long":"` + strings.Repeat("x", 10_000) + `","a":"1","b":"\u0031"}`)
	tags, err := Tags(data)
	require.NoError(t, err)
	require.Equal(t, []Tag{{"a", "1"}, {"b", "1"}}, tags)
}
