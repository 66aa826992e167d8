package event

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/stretchr/testify/require"
)

// Every stored form of an event, of all times, reads as the type of today. The
// files are data as it was written then, named TYPE.VERSION.json; each change of
// a type adds one, and none is ever changed.
func TestGolden(t *testing.T) {
	c := testCodec()
	want := map[string]Event{
		"AccountCreated.1": Opened{Account: "ada", Owner: Person{"Ada", "Lovelace"}},
		"Opened.2":         Opened{Account: "ada", Owner: Person{"Ada", "Lovelace"}},
		"AccountOpened.3":  Opened{Account: "ada", Owner: Person{"Ada", "Lovelace"}, Cents: 9007199254740993},
		"MoneyPosted.1":    &Posted{Account: "ada", Cents: 9007199254740993, Rate: 0.1, Note: json.Number("9223372036854775807")},
	}
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		stored, number, _ := strings.Cut(name, ".")
		version, err := strconv.Atoi(number)
		require.NoError(t, err)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		e, err := c.Decode(Record{Type: stored, Data: data, Metadata: Metadata{Version: version}})
		require.NoError(t, err, file)
		require.Equal(t, want[name], e, file)
	}
}

func TestDecodeRefuses(t *testing.T) {
	c := testCodec()
	at := consistency.NewPosition(0, 42)
	for _, test := range []struct {
		name, data string
		version    int
		is         error
		why        string
	}{
		{"AccountOpend", `{}`, 1, ErrUnknownType, `did you mean "AccountOpened"?`},
		{"Gone", `{}`, 0, ErrUnknownType, "register it with event.Of, or as an old name of another type with Formerly"},
		{"AccountOpened", `{}`, 4, ErrUndecodable, "written as version 4, and this program knows versions up to 3: update this program"},
		{"MoneyPosted", `{}`, -1, ErrUndecodable, "there is no version -1"},
		{"MoneyPosted", `null`, 1, ErrUndecodable, `"null", not a JSON object`},
		{"MoneyPosted", ` [] `, 1, ErrUndecodable, "not a JSON object"},
		{"MoneyPosted", ``, 1, ErrUndecodable, "not a JSON object"},
		{"Free", `null`, 1, ErrUndecodable, "not a JSON object"},
		{"Custom", `null`, 1, ErrUndecodable, "not a JSON object"},
		{"AccountOpened", `{"cents":"1"`, 3, ErrUndecodable, "unexpected end"},
		{"AccountOpened", `{"cents":"1"} {}`, 3, ErrUndecodable, "after top-level value"},
		{"MoneyPosted", `{"cents":1} {}`, 1, ErrUndecodable, "text after the object"},
		{"MoneyPosted", `{"cents":1}]`, 1, ErrUndecodable, "text after the object"},
		{"Free", `{"a":1}x`, 1, ErrUndecodable, ""},
		{"AccountOpened", `{"cents":1}`, 3, ErrUndecodable, "as event.Opened: json:"},
		{"AccountOpened", `{"cents":"9223372036854775808"}`, 3, ErrUndecodable, "cents"},
		{"AccountOpened", `{"accountId":7}`, 3, ErrUndecodable, "number into Go struct field Opened.accountId of type string"},
		{"MoneyPosted", `{"cents":9223372036854775808}`, 1, ErrUndecodable, "9223372036854775808"},
		{"MoneyPosted", `{"cents":1.5}`, 1, ErrUndecodable, "1.5"},
		{"MoneyPosted", `{"rate":1e400}`, 1, ErrUndecodable, "1e400"},
		{"Opened", `{"account":["ada"]}`, 1, ErrUndecodable, "as event.openedV1"},
		{"Opened", `{"owner":"Ada"}`, 2, ErrUndecodable, "panic: an owner of one word: Ada"},
		{"Touchy", `{"Fuse":"in"}`, 1, ErrUndecodable, "panic: boom"},
		{"Touchy", `{"Fuse":"bad"}`, 1, ErrUndecodable, "a bad fuse"},
		{MarkerType, `null`, 1, ErrUndecodable, "not a JSON object"},
		{MarkerType, `{"refusal":{"type":"Gone","version":1,"data":{}}}`, 1, ErrUnknownType, `refusal of type "Gone", version 1: event type is not in the codec`},
		{MarkerType, `{"refusal":{"type":"AccountOpened","version":9,"data":{}}}`, 1, ErrUndecodable, "update this program"},
		{MarkerType, `{"refusal":{"type":"Refused","version":1,"data":null}}`, 1, ErrUndecodable, "not a JSON object"},
		{MarkerType, `{"refusal":{"type":"Refused","version":1}}`, 1, ErrUndecodable, "not a JSON object"},
		{MarkerType, `{"refusal":{"type":"Touchy","version":1,"data":{"Fuse":"in"}}}`, 1, ErrUndecodable, "panic: boom"},
		{MarkerType, `{"refusal":{"type":"ccc.CommandRecorded","version":1,"data":{}}}`, 1, ErrUndecodable, "a marker is no refusal"},
		{MarkerType, `{"refusal":"x"}`, 1, ErrUndecodable, "refusal"},
		{MarkerType, `{}`, 2, ErrUndecodable, "update this program"},
	} {
		e, err := c.Decode(Record{ID: command, Type: test.name, Data: json.RawMessage(test.data), Position: at, Metadata: Metadata{Version: test.version}})
		require.Nil(t, e, "%v", test)
		require.ErrorIs(t, err, test.is, "%v", test)
		require.ErrorContains(t, err, test.why, "%v", test)
		require.Equal(t, test.is == ErrUndecodable, errors.Is(err, ErrUndecodable), "one of the two: %v", err)
		d, ok := errors.AsType[*DecodeError](err)
		require.True(t, ok)
		want := DecodeError{ID: command, Type: test.name, Version: test.version, Position: at, Err: d.Err}
		if test.version == 0 {
			want.Version = 1
		}
		require.Equal(t, want, *d)
		for _, named := range []string{command.String(), strconv.Quote(test.name), "version " + strconv.Itoa(d.Version), at.String()} {
			require.ErrorContains(t, err, named)
		}
	}
}

func TestDecodePanicKeepsItsStack(t *testing.T) {
	_, err := testCodec().Decode(Record{Type: "Opened", Data: json.RawMessage(`{}`), Metadata: Metadata{Version: 2}})
	p, ok := errors.AsType[*PanicError](err)
	require.True(t, ok)
	require.Equal(t, "an owner of one word: ", p.Value)
	require.Contains(t, string(p.Stack), "splitName")
}

// One name, several versions: an old name does not mean an old version, and no
// version at all is the first.
func TestDecodeVersionsAndNames(t *testing.T) {
	c := testCodec()
	ada := Opened{Account: "ada", Owner: Person{"Ada", "L"}}
	for _, name := range []string{"AccountOpened", "Opened", "AccountCreated"} {
		for version, data := range []string{
			`{"account":"ada","owner":"Ada L"}`,
			`{"account":"ada","owner":"Ada L"}`,
			`{"accountId":"ada","owner":"Ada L"}`,
			`{"accountId":"ada","owner":{"First":"Ada","Last":"L"},"commandId":"x","unknown":[1]}`,
		} {
			e, err := c.Decode(Record{Type: name, Data: json.RawMessage(data), Metadata: Metadata{Version: version}})
			require.NoError(t, err)
			require.Equal(t, ada, e, "%s %d", name, version)
		}
	}
}

func TestMarkerRoundTrip(t *testing.T) {
	c := testCodec()
	for _, m := range []Marker{{}, {Refused{"short"}}, {Opened{Account: "ada"}}, {&Posted{Cents: 1}}, {Free{}}, {Custom{`{"a":1}`}}} {
		back := roundTrip(t, c, m)
		require.Equal(t, m, back)
	}
	// The refusal as an older program stored it.
	e, err := c.Decode(Record{Type: MarkerType, Data: json.RawMessage(`{"refusal":{"type":"Opened","version":1,"data":{"account":"ada","owner":"Ada L"}},"commandId":"x"}`)})
	require.NoError(t, err)
	require.Equal(t, Marker{Opened{Account: "ada", Owner: Person{"Ada", "L"}}}, e)
	// Its only key that can be queried is the command's.
	data, _, err := c.Encode(Marker{Refused{"short"}}, command)
	require.NoError(t, err)
	tags, err := consistency.Tags(data)
	require.NoError(t, err)
	require.Equal(t, []consistency.Tag{{Key: consistency.CommandKey, Value: command.String()}}, tags)
}

func TestUpcastToNil(t *testing.T) {
	c := NewCodec(Of[*Posted](From(func(openedV1) *Posted { return nil })))
	_, err := c.Decode(Record{Type: "MoneyPosted", Data: json.RawMessage(`{}`)})
	require.ErrorIs(t, err, ErrUndecodable)
	require.ErrorContains(t, err, "the upcast to *event.Posted returned nil")
}

func TestUpcastFromAMap(t *testing.T) {
	c := NewCodec(Of[Opened](From(func(old map[string]any) Opened { return Opened{Account: old["n"].(json.Number).String()} })))
	e, err := c.Decode(Record{Type: "AccountOpened", Data: json.RawMessage(`{"commandId":"x","n":9007199254740993}`)})
	require.NoError(t, err)
	require.Equal(t, Opened{Account: "9007199254740993"}, e)
}
