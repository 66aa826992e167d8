package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// named gives any payload an event type's name.
type named[T any] struct{ Payload T }

func (named[T]) EventType() string { return "Named" }

type (
	Closed      struct{ Account string }
	SecondName  struct{ Account string }
	OwnName     struct{}
	EmptyName   struct{}
	LongName    struct{}
	TextEvent   string
	ListEvent   []string
	ListMarshal []string
	Hidden      struct{ account string }
	HiddenDeep  struct {
		In []map[string]struct{ at *struct{ Lat, lon int } }
	}
	Allowed struct {
		Account string
		cache   sync.Mutex `json:"-"` //nolint:unused // the case that is tested
		_       int
		lower
	}
	lower     struct{ City string }
	WithTime  struct{ time.Time }
	WithTimes struct{ named[time.Time] }
	Stamped   struct{ time.Time }
	Overlaid  struct {
		json.RawMessage
		Account string
	}
	Twins struct {
		left
		right
	}
	left     struct{ ID string }
	right    struct{ ID string }
	Lowered  struct{ *lower }
	Reserved struct {
		C string `json:"commandId"`
	}
	Folded  struct{ CommandID string }
	Folded2 struct{ EVENTTYPE int }
	Dunder  struct {
		X int `json:"__x"`
	}
	Nested   struct{ In Reserved }
	nilDeref struct{ *Closed }
)

func (Closed) EventType() string      { return "Closed" }
func (SecondName) EventType() string  { return "Closed" }
func (OwnName) EventType() string     { return "ccc.Mine" }
func (EmptyName) EventType() string   { return "" }
func (LongName) EventType() string    { return strings.Repeat("x", 257) }
func (TextEvent) EventType() string   { return "TextEvent" }
func (ListEvent) EventType() string   { return "ListEvent" }
func (ListMarshal) EventType() string { return "ListMarshal" }
func (Hidden) EventType() string      { return "Hidden" }
func (HiddenDeep) EventType() string  { return "HiddenDeep" }
func (*Allowed) EventType() string    { return "Allowed" }
func (WithTime) EventType() string    { return "WithTime" }
func (Overlaid) EventType() string    { return "Overlaid" }
func (Twins) EventType() string       { return "Twins" }
func (Lowered) EventType() string     { return "Lowered" }
func (Reserved) EventType() string    { return "Reserved" }
func (Folded) EventType() string      { return "Folded" }
func (Folded2) EventType() string     { return "Folded2" }
func (Dunder) EventType() string      { return "Dunder" }
func (Nested) EventType() string      { return "Nested" }

func (l ListMarshal) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string][]string{"list": l})
}
func (l *ListMarshal) UnmarshalJSON(data []byte) error {
	var in map[string][]string
	err := json.Unmarshal(data, &in)
	*l = in["list"]
	return err
}

type writeOnly struct{ X int }

func (writeOnly) MarshalText() ([]byte, error) { return nil, nil }

func TestNewCodecRefuses(t *testing.T) {
	toV2 := From(func(o openedV1) openedV2 { return openedV2(o) })
	toV3 := From(splitName)
	for _, test := range []struct {
		why   string
		kinds []Kind
	}{
		{`kind 2 of 2: event.SecondName: name "Closed" belongs to event.Closed already`, []Kind{Of[Closed](), Of[SecondName]()}},
		{`event.Closed is in the codec already: add it once`, []Kind{Of[Closed](), Of[Closed]()}},
		{`name "Closed" belongs to event.Closed already`, []Kind{Of[Closed](), Of[*Closed]()}},
		{`event.Opened: name "Closed" belongs to event.Closed already`, []Kind{Of[Closed](), Of[Opened]().Formerly("Closed")}},
		{`event.Opened: name "Old" belongs to event.Closed already`, []Kind{Of[Closed]().Formerly("Old"), Of[Opened]().Formerly("Old")}},
		{`name "Closed" is given twice: Formerly takes names other`, []Kind{Of[Closed]().Formerly("Closed")}},
		{`name "Old" is given twice`, []Kind{Of[Closed]().Formerly("Old").Formerly("Old")}},
		{`name "ccc.CommandRecorded": names that begin with "ccc." are the framework's`, []Kind{Of[Marker]()}},
		{`name "ccc.Mine": names that begin`, []Kind{Of[OwnName]()}},
		{`name "ccc.CommandRecorded": names that begin`, []Kind{Of[Closed]().Formerly(MarkerType)}},
		{`must be 1 to 256 bytes`, []Kind{Of[EmptyName]()}},
		{`must be 1 to 256 bytes`, []Kind{Of[LongName]()}},
		{`must be 1 to 256 bytes`, []Kind{Of[Closed]().Formerly("a\x00")}},
		{`it is empty: make it with event.Of`, []Kind{{}}},
		{`event.Event is an interface: name the Go type of the event`, []Kind{Of[Event]()}},
		{`EventType of a zero event.nilDeref panics`, []Kind{Of[nilDeref]()}},

		{`event.TextEvent is not stored as a JSON object: use a struct`, []Kind{Of[TextEvent]()}},
		{`event.ListEvent is not stored as a JSON object`, []Kind{Of[ListEvent]()}},
		{`the MarshalJSON of event.WithTime writes "0001-01-01T00:00:00Z", not a JSON object`, []Kind{Of[WithTime]()}},
		{`Overlaid embeds json.RawMessage, whose way to be encoded may hide the other fields: give the embedded field a name`, []Kind{Of[*Overlaid]()}},
		{`key "commandId" (field Reserved.C) is reserved`, []Kind{Of[Reserved]()}},
		{`key "CommandID" (field Folded.CommandID) is reserved for the framework, or read as a reserved one`, []Kind{Of[Folded]()}},
		{`key "EVENTTYPE" (field Folded2.EVENTTYPE) is reserved`, []Kind{Of[Folded2]()}},
		{`key "__x" (field Dunder.X) is reserved`, []Kind{Of[Dunder]()}},
		{`version 1: key "commandId" (field Reserved.C) is reserved`, []Kind{Of[Closed](From(func(Reserved) Closed { return Closed{} }))}},

		{`Hidden.account is not exported, so it would not be stored`, []Kind{Of[Hidden]()}},
		{`HiddenDeep.In.at is not exported`, []Kind{Of[HiddenDeep]()}},
		{`several fields with the key "ID", and encoding/json would store none of them`, []Kind{Of[Twins]()}},
		{`Lowered.lower is an embedded pointer to a type that is not exported`, []Kind{Of[Lowered]()}},
		{`.Payload is of type func(), which JSON does not have`, []Kind{Of[named[func()]]()}},
		{`.Payload is of type chan int`, []Kind{Of[named[[]chan int]]()}},
		{`.Payload is of type complex128`, []Kind{Of[named[map[string]complex128]]()}},
		{`.Payload is of interface type fmt.Stringer, which could be written but never read back`, []Kind{Of[named[*fmt.Stringer]]()}},
		{`.Payload is a map with keys of type bool`, []Kind{Of[named[map[bool]int]]()}},
		{`.Payload is of type event.writeOnly, which has MarshalText but no UnmarshalText`, []Kind{Of[named[writeOnly]]()}},

		{`upcast 1 is empty: make it with event.From and a function`, []Kind{Of[Opened](Upcast{})}},
		{`upcast 1 is empty`, []Kind{Of[Opened](From[openedV2, Opened](nil))}},
		{`the upcast from version 1 gives event.openedV2, but version 2 is event.Opened: steps go from each version to the next, oldest first`, []Kind{Of[Opened](toV2)}},
		{`the upcast from version 1 gives event.Opened, but version 2 is event.openedV1`, []Kind{Of[Opened](toV3, toV2)}},
		{`the upcast from version 2 gives event.Opened, but version 3 is *event.Opened`, []Kind{Of[*Opened](toV2, toV3)}},
		{`version 1: interface {} is an interface: use map[string]any`, []Kind{Of[Closed](From(func(any) Closed { return Closed{} }))}},
		{`version 1: string does not decode from a JSON object`, []Kind{Of[Closed](From(func(string) Closed { return Closed{} }))}},
	} {
		func() {
			defer func() {
				p := recover()
				require.NotNil(t, p, "no panic: %s", test.why)
				require.Contains(t, p, test.why)
				require.Contains(t, p, "event: NewCodec: kind ")
			}()
			NewCodec(test.kinds...)
		}()
	}
}

func TestNewCodecTakes(t *testing.T) {
	for _, k := range []Kind{
		Of[*Allowed](), Of[ListMarshal](), Of[Nested](), // reserved keys count at the top only
		Of[Closed](From(func(*openedV1) *openedV2 { return &openedV2{} }), From(func(*openedV2) Closed { return Closed{} })),
		Of[Closed](From(func(json.RawMessage) Closed { return Closed{} })),
		Of[named[time.Time]](), Of[named[*json.RawMessage]](), Of[named[any]](), Of[named[map[int]*[]byte]](), Of[named[json.Number]](),
		Of[named[recursive]](),
	} {
		require.NotPanics(t, func() { NewCodec(k) }, "%s", k.goType)
	}
	require.NotPanics(t, func() { NewCodec() })
	c := NewCodec(Of[*Allowed](), Of[ListMarshal]())
	a := &Allowed{Account: "ada", lower: lower{"Rome"}}
	require.Equal(t, a, roundTrip(t, c, a))
	require.Equal(t, ListMarshal{"a"}, roundTrip(t, c, ListMarshal{"a"}))
}

type recursive struct {
	Next *recursive
	All  map[string][]recursive
}

// Formerly makes a new Kind and leaves the old one.
func TestFormerlyIsAValue(t *testing.T) {
	k := Of[Closed]().Formerly("a").Formerly("b").Formerly("c") // appending would leave room for a fourth
	x, y := k.Formerly("x"), k.Formerly("y")
	require.Equal(t, []string{"Closed", "a", "b", "c", "x"}, NewCodec(x).Types())
	require.Equal(t, []string{"Closed", "a", "b", "c", "y"}, NewCodec(y).Types())
	require.Equal(t, []string{"Closed", "a", "b", "c"}, NewCodec(k).Types())
}

func TestTypeOf(t *testing.T) {
	require.Equal(t, "AccountOpened", TypeOf[Opened]())
	require.Equal(t, "AccountOpened", TypeOf[*Opened]())
	require.Equal(t, "MoneyPosted", TypeOf[*Posted]())
	require.Equal(t, MarkerType, TypeOf[Marker]())
	require.PanicsWithValue(t, "event: event.Event is an interface: name the Go type of the event", func() { TypeOf[Event]() })
	require.Panics(t, func() { TypeOf[nilDeref]() })
}
