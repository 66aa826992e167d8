package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// roundTrip stores e and reads it back.
func roundTrip(t require.TestingT, c *Codec, e Event) Event {
	data, version, err := c.Encode(e, command)
	require.NoError(t, err)
	_, err = consistency.Tags(data)
	require.NoError(t, err, "stores take it")
	back, err := c.Decode(Record{Type: e.EventType(), Data: data, Metadata: Metadata{Version: version}})
	require.NoError(t, err)
	return back
}

func TestEncode(t *testing.T) {
	c := testCodec()
	for _, test := range []struct {
		event   Event
		command uuid.UUID
		version int
		want    string
	}{
		{Opened{"ada", Person{"Ada", "L"}, math.MaxInt64}, command, 3, `{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","accountId":"ada","owner":{"First":"Ada","Last":"L"},"cents":"9223372036854775807"}`},
		{Opened{}, uuid.Nil, 3, `{"accountId":"","owner":{"First":"","Last":""},"cents":"0"}`},
		{&Posted{Account: "ada", Cents: 1<<53 + 1, Rate: 0.1}, uuid.Nil, 1, `{"accountId":"ada","cents":9007199254740993,"rate":0.1}`},
		{Free{}, command, 1, `{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f"}`},
		{Custom{`{ "a" : 1 }`}, command, 1, `{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","a":1}`},
		{Marker{}, command, 1, `{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f"}`},
		{Marker{Refused{"short"}}, command, 1, `{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","refusal":{"type":"Refused","version":1,"data":{"Code":"short"}}}`},
		{Marker{Opened{Account: "ada"}}, uuid.Nil, 1, `{"refusal":{"type":"AccountOpened","version":3,"data":{"accountId":"ada","owner":{"First":"","Last":""},"cents":"0"}}}`},
	} {
		data, version, err := c.Encode(test.event, test.command)
		require.NoError(t, err)
		require.Equal(t, test.want, string(data))
		require.Equal(t, test.version, version)
	}
}

func TestEncodeRefuses(t *testing.T) {
	type Unknown struct{ Opened }
	c := NewCodec(Of[Opened](From(func(o openedV2) Opened { return splitName(o) })), Of[*Posted](), Of[Free](), Of[Custom](), Of[Touchy](), Of[Moody](), Of[Deep]())
	for why, test := range map[string]struct {
		event Event
		is    error
	}{
		"it is nil: leave it out":                                          {nil, ErrUnknownType},
		"return event.Opened, not *event.Opened":                           {&Opened{}, ErrUnknownType},
		"add event.Of[event.Unknown]() to event.NewCodec":                  {Unknown{}, ErrUnknownType},
		"event.oldEvent: add event.Of":                                     {oldEvent{}, ErrUnknownType},
		"return event.Marker, not a pointer to it":                         {&Marker{}, ErrUnknownType},
		"a nil *event.Posted":                                              {(*Posted)(nil), ErrUnencodable},
		"it is stored as null, not as a JSON object":                       {Free(nil), ErrUnencodable},
		"it is stored as [1], not as a JSON object":                        {Custom{"[1]"}, ErrUnencodable},
		`key "commandId" is reserved`:                                      {Free{"commandId": "x"}, ErrUnencodable},
		`key "__x" is reserved`:                                            {Custom{`{"__x":1}`}, ErrUnencodable},
		`key "eventType" is reserved`:                                      {Free{"eventType": 1}, ErrUnencodable},
		"panic: boom":                                                      {Touchy{"out"}, ErrUnencodable},
		"unsupported value: NaN":                                           {&Posted{Rate: math.NaN()}, ErrUnencodable},
		"event.Opened.Owner.Last is not valid UTF-8":                       {Opened{Owner: Person{Last: "\xff"}}, ErrUnencodable},
		"event.Deep.In[1][k].Note is not valid UTF-8":                      {Deep{[]map[string]*Posted{{}, {"k": {Note: "a\xffb"}}}}, ErrUnencodable},
		"event.Free (a key) is not valid UTF-8":                            {Free{"\xff": 1}, ErrUnencodable},
		`EventType of this event.Moody is "good", and of a zero one "bad"`: {Moody{true}, ErrUnencodable},
		"a marker is no refusal":                                           {Marker{Marker{}}, ErrUnencodable},
		"refusal: event type is not in the codec":                          {Marker{Refused{}}, ErrUnknownType},
		"refusal: event cannot be stored: event.Touchy: panic":             {Marker{Touchy{"out"}}, ErrUnencodable},
	} {
		data, version, err := c.Encode(test.event, command)
		require.ErrorIs(t, err, test.is, why)
		require.ErrorContains(t, err, why)
		require.True(t, strings.HasPrefix(err.Error(), "event: "), err)
		require.NotContains(t, err.Error()[1:], " event: ", "the package is named once")
		require.Zero(t, data)
		require.Zero(t, version)
	}
	_, _, err := c.Encode(Touchy{"out"}, command)
	p, ok := errors.AsType[*PanicError](err)
	require.True(t, ok)
	require.Contains(t, string(p.Stack), "types_test.go")

	// Text that is only like the replacement of what is not UTF-8.
	for _, text := range []string{`\ufffd`, "\ufffd", `\\ufffd`} {
		require.Equal(t, Free{"a": text}, roundTrip(t, c, Free{"a": text}))
	}
}

type oldEvent struct{}

func (oldEvent) EventType() string { return "OldEvent" }

type Moody struct{ Good bool }

func (m Moody) EventType() string {
	if m.Good {
		return "good"
	}
	return "bad"
}

type Deep struct{ In []map[string]*Posted }

func (Deep) EventType() string { return "Deep" }

func TestEncodeNamesTheCurrentVersion(t *testing.T) {
	c := NewCodec(Of[Opened](From(func(oldEvent) Opened { return Opened{} })))
	_, _, err := c.Encode(oldEvent{}, command)
	require.ErrorIs(t, err, ErrUnknownType)
	require.ErrorContains(t, err, `event.oldEvent is version 1 of "AccountOpened": return the current event.Opened`)
}

func TestHas(t *testing.T) {
	c := testCodec()
	for _, e := range []Event{Opened{}, &Opened{}, (*Opened)(nil), &Posted{}, Free{}, &Refused{}} {
		require.True(t, c.Has(e), "%T", e)
	}
	for _, e := range []Event{nil, Marker{}, &Marker{}, oldEvent{}, Moody{}} {
		require.False(t, c.Has(e), "%T", e)
	}
}

func TestTypes(t *testing.T) {
	c := testCodec()
	want := []string{"AccountCreated", "AccountOpened", "Custom", "Free", "MoneyPosted", "Opened", "Refused", "Touchy"}
	types := c.Types()
	require.Equal(t, want, types)
	types[0] = "changed"
	require.Equal(t, want, c.Types())
}

// Keys of all versions; not those of numbers and objects, nor of unknown types.
func TestKeys(t *testing.T) {
	require.Equal(t, []string{"Code", "Fuse", "account", "accountId", "cents", "note", "owner"}, testCodec().Keys())
}

// Numbers keep all their digits: in typed fields, in strings and in open parts.
func TestNumbersSurvive(t *testing.T) {
	c := testCodec()
	ints := rapid.OneOf(rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, 1<<53 + 1, -1<<53 - 1, 0, -1}), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		n, m := ints.Draw(t, "n"), ints.Draw(t, "m")
		rate := rapid.OneOf(rapid.Just(0.1), rapid.Float64()).Draw(t, "rate")
		amount := rapid.SampledFrom([]json.Number{"0.1", "9007199254740993", "-9223372036854775808", "18446744073709551616", "1e400", "0.30000000000000004"}).Draw(t, "amount")
		text := rapid.String().Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }).Draw(t, "text")

		require.Equal(t, Opened{Account: text, Cents: n}, roundTrip(t, c, Opened{Account: text, Cents: n}))

		number := json.Number(fmt.Sprint(m))
		posted := &Posted{Account: text, Cents: n, Rate: rate, Amount: amount, Note: map[string]any{"n": number, "list": []any{amount, text, nil, true}}}
		require.Equal(t, posted, roundTrip(t, c, posted))

		free := Free{"n": number, "amount": amount, "deep": []any{map[string]any{"n": number}}}
		require.Equal(t, free, roundTrip(t, c, free))
		require.Equal(t, Free{"n": number}, roundTrip(t, c, Free{"n": m}))

		refusal := Marker{Free{"n": number}}
		require.Equal(t, refusal, roundTrip(t, c, refusal))
	})
}

// Types that see their data raw do not see the command's ID, wherever a store
// has put it.
func TestOpenTypesDoNotSeeTheCommand(t *testing.T) {
	c := testCodec()
	for _, data := range []string{
		`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","a":1}`,
		` { "a" : 1 , "commandId" : "0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f" } `,
		`{"a":1,"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f"}`,
		`{"commandId":"short","a":1}`,
		`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398\",","a":1}`, // of another writer: ends later than it looks
		`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","\u0061":1}`,
		`{"a":1}`,
	} {
		e, err := c.Decode(Record{Type: "Free", Data: json.RawMessage(data)})
		require.NoError(t, err, data)
		require.Equal(t, Free{"a": json.Number("1")}, e, data)
		e, err = c.Decode(Record{Type: "Custom", Data: json.RawMessage(data)})
		require.NoError(t, err, data)
		require.NotContains(t, e.(Custom).raw, "commandId")
		require.Contains(t, e.(Custom).raw, ":1")
	}
	e, err := c.Decode(Record{Type: "Free", Data: json.RawMessage(`{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f"}`)})
	require.NoError(t, err)
	require.Equal(t, Free{}, e)
}

// Decoding does not write into what a store may share.
func TestDecodeLeavesTheRecord(t *testing.T) {
	c := testCodec()
	data := `{"commandId":"0190b7e4-6f5c-7cc3-98c4-dc0c0c07398f","a":"x"}`
	kept := json.RawMessage(data)
	for _, name := range []string{"Free", "Custom", "AccountOpened"} {
		_, err := c.Decode(Record{Type: name, Data: kept, Metadata: Metadata{Version: 1}})
		require.Equal(t, data, string(kept))
		if name != "AccountOpened" { // its upcast wants two words
			require.NoError(t, err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	c := testCodec()
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Encode(Opened{Account: "ada", Cents: 30}, command); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	c := testCodec()
	for _, e := range []Event{Opened{Account: "ada", Cents: 30}, &Posted{Account: "ada", Cents: 30}, Free{"account": "ada", "cents": 30}, Marker{Refused{"short"}}} {
		data, version, err := c.Encode(e, command)
		require.NoError(b, err)
		r := Record{Type: e.EventType(), Data: data, Metadata: Metadata{Version: version}}
		b.Run(e.EventType(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Decode(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
