package event

import (
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func fingerprintOf(t require.TestingT, command any) string {
	text, _, err := Fingerprint("c", command)
	require.NoError(t, err, "%#v", command)
	require.Regexp(t, `^[A-Za-z0-9_-]{43}$`, text)
	return text
}

type (
	Withdraw struct {
		Account string
		Cents   int64
	}
	WithdrawLater struct { // the same, later
		Note    *string
		Cents   int64
		Reason  string `json:"why"`
		Account string
		Labels  map[string]string
		Limits  struct {
			Day, Week int
			Notes     []string
		}
		Lines []string
		When  time.Time
		By    any
		Exact json.Number
		Large big.Int
		ID    uuid.UUID
		Raw   json.RawMessage
	}
	WithdrawTagged struct {
		A string `json:"Account,omitempty"`
		C uint32 `json:"Cents,string"`
	}
	Timed struct {
		Account string
		Cents   int64
		Now     time.Time `ccc:"-"`
		clock   func()    `ccc:"-"` //nolint:unused // the case that is tested
	}
	Card struct{ Number string }
	Cash struct{ Number string }
	Tree struct {
		Name string
		Kids []*Tree
		By   map[string]*Tree
	}
	TimedTree struct {
		Kid *TimedTree
		In  struct {
			Now int `ccc:"-"`
		}
	}
	base struct{ Account string }
)

// Fingerprints are stored for ever: a repeat after an upgrade is compared with
// one of today. These never change.
func TestFingerprintGolden(t *testing.T) {
	note := ""
	for want, command := range map[string]any{
		"QeDUCOGe4nHOs8l9dU8sk4F1ohLSUFvHgDyah_Nmlsw": Withdraw{"ada", 30},
		"2lL2a91jNUs7jf327jtCQbe-a044zqHgWoB1pU0ETUs": WithdrawLater{
			Note: &note, Cents: math.MinInt64, Reason: "r", Account: "ada", Labels: map[string]string{"b": "2", "a": "1"}, Lines: []string{"", "x"},
			When: someDay, By: Card{"4711"}, Exact: "0.10", Large: *bigSum, ID: command, Raw: json.RawMessage(`{"b":[1,null,true,"x"],"a":1.50}`),
		},
		"xVokGmcM28YcGLRfbPNNb88ctyO8O21pAEpcARgiYQs": []any{1.5, float32(0.1), []byte("bytes"), [2]bool{true, false}, map[int]string{2: "b", 1: "a"}, nil, uint64(math.MaxUint64), netip.MustParseAddr("10.0.0.1"), struct{}{}, (*int)(nil)},
	} {
		require.Equal(t, want, fingerprintOf(t, command), "%+v", command)
	}
}

func TestFingerprintsThatAreAlike(t *testing.T) {
	want := fingerprintOf(t, Withdraw{"ada", 30})
	for name, same := range map[string]any{
		"a pointer":                      &Withdraw{"ada", 30},
		"fields added, in another order": WithdrawLater{Account: "ada", Cents: 30},
		"empty, not nil":                 WithdrawLater{Account: "ada", Cents: 30, Labels: map[string]string{}, Lines: []string{}, Raw: json.RawMessage{}},
		"zero in a nested struct": WithdrawLater{Account: "ada", Cents: 30, Limits: struct {
			Day, Week int
			Notes     []string
		}{Notes: []string{}}},
		"zero in another form":            WithdrawLater{Account: "ada", Cents: 30, Exact: "0", When: time.Time{}.In(someDay.Location()), Large: *new(big.Int).Sub(bigSum, bigSum), Raw: json.RawMessage("null")},
		"JSON tags, another integer type": WithdrawTagged{"ada", 30},
		"what is left out":                Timed{Account: "ada", Cents: 30, Now: someDay},
		"json:\"-\" counts by its Go name": struct {
			X     string `json:"Account"`
			Cents int    `json:"-"`
		}{"ada", 30},
		"an invalid tag is none": struct {
			Account string `json:"a\"b"`
			Cents   int8   `json:","`
		}{"ada", 30},
		"blank fields": struct {
			_       int
			Account string
			Cents   int
		}{Account: "ada", Cents: 30},
	} {
		require.Equal(t, want, fingerprintOf(t, same), name)
	}
	pairs := [][2]any{
		{map[string]any{"a": 1, "b": 2}, map[string]any{"b": 2, "a": 1}},
		{json.RawMessage(`{"a":1,"b":"\u0078"}`), json.RawMessage(` { "b" : "x", "a" : 1 } `)},
		{someDay, someDay.Round(0)}, // without the monotonic clock
		{struct{ X any }{json.Number("7")}, struct{ X any }{7}},
		{math.Copysign(0, -1), 0.0},
		{struct{ P *Withdraw }{&Withdraw{"ada", 1}}, struct{ P *WithdrawTagged }{&WithdrawTagged{"ada", 1}}},
		{base{"ada"}, struct{ Account string }{"ada"}},
	}
	for _, p := range pairs {
		require.Equal(t, fingerprintOf(t, p[0]), fingerprintOf(t, p[1]), "%v %v", p[0], p[1])
	}
}

func TestFingerprintsThatDiffer(t *testing.T) {
	zero, one := 0, 1
	var nothing any
	inStruct := func(x any) any { return struct{ X any }{x} }
	all := []any{
		Withdraw{"ada", 30}, Withdraw{"ada", 31}, Withdraw{"ad", 30}, Withdraw{"", 30}, Withdraw{"ada", 0}, Withdraw{},
		Withdraw{"ada", 1<<53 + 1}, Withdraw{"ada", 1 << 53}, Withdraw{"ada", math.MaxInt64}, Withdraw{"ada", math.MinInt64},
		struct{ U uint64 }{math.MaxUint64}, struct{ U uint64 }{math.MaxUint64 - 1},
		struct{ S string }{"1"}, struct{ S int }{1}, struct{ S float64 }{1}, struct{ S bool }{true}, struct{ S []byte }{[]byte("1")}, struct{ S []string }{[]string{"1"}},
		struct{ P *int }{&zero}, struct{ P *int }{&one}, struct{ P **int }{func() **int { p := (*int)(nil); return &p }()},
		struct{ P *struct{} }{&struct{}{}},
		struct{ L []string }{[]string{""}}, struct{ L []string }{[]string{"", ""}}, struct{ L []string }{[]string{"a", "b"}}, struct{ L []string }{[]string{"b", "a"}}, struct{ L []string }{[]string{"ab"}},
		struct{ L []string }{[]string{"a", "s\x00b"}}, struct{ L []string }{[]string{"as\x00", "b"}}, // one text, if lengths did not count
		struct{ L []*int }{[]*int{nil}}, struct{ L []*int }{[]*int{&zero}},
		struct{ L [2]int }{[2]int{0, 1}}, struct{ L [2]int }{[2]int{1, 0}},
		struct{ A, B string }{"x", ""}, struct{ A, B string }{"", "x"}, struct{ A, B string }{"xB", ""},
		struct{ M map[string]string }{map[string]string{"a": ""}}, struct{ M map[string]string }{map[string]string{"a": "b"}}, struct{ M map[string]string }{map[string]string{"b": "a"}}, struct{ M map[string]string }{map[string]string{"": "a"}},
		struct{ Y base }{base{"ada"}}, struct{ base }{base{"ada"}}, // nested, and not by its promoted fields
		inStruct(Card{"1"}), inStruct(Cash{"1"}), inStruct(&Card{"1"}), inStruct("1"), inStruct(1), inStruct(1.0), inStruct(true), inStruct(false), inStruct(0), inStruct(""), inStruct([]any{}), inStruct(map[string]any{}), inStruct(&nothing),
		inStruct(json.Number("1.0")), inStruct(json.Number("9007199254740993")), inStruct(json.Number("9007199254740992")), inStruct(fuse("1")),
		struct{ R json.RawMessage }{json.RawMessage(`9007199254740993`)}, struct{ R json.RawMessage }{json.RawMessage(`9007199254740992`)}, struct{ R json.RawMessage }{json.RawMessage(`"9007199254740993"`)},
		struct{ R json.RawMessage }{json.RawMessage(`[]`)}, struct{ R json.RawMessage }{json.RawMessage(`{}`)}, struct{ R json.RawMessage }{json.RawMessage(`[null]`)}, struct{ R json.RawMessage }{json.RawMessage(`{"a":null}`)}, struct{ R json.RawMessage }{json.RawMessage(`false`)}, struct{ R json.RawMessage }{json.RawMessage(`0`)},
		struct{ T time.Time }{someDay}, struct{ T time.Time }{someDay.UTC()}, struct{ T time.Time }{someDay.Add(1)},
		struct{ F float64 }{0.1}, struct{ F float32 }{0.1}, struct{ F float64 }{math.Inf(1)}, struct{ F float64 }{math.Inf(-1)}, struct{ F float64 }{math.SmallestNonzeroFloat64},
		struct{ B []byte }{[]byte{0}}, struct{ B [2]byte }{[2]byte{1, 0}}, struct{ B [2]byte }{[2]byte{0, 1}},
		struct{ B *big.Int }{big.NewInt(0)}, struct{ B *big.Int }{bigSum}, struct{ S string }{"\xff"}, struct{ S string }{"\xfe"}, struct{ S string }{"\ufffd"},
	}
	seen := map[string]any{}
	for _, command := range all {
		text := fingerprintOf(t, command)
		other, ok := seen[text]
		require.False(t, ok, "%#v is like %#v", command, other)
		seen[text] = command
	}
	// The name counts, and does not run into the payload.
	names := map[string]bool{}
	for _, name := range []string{"", "c", "c{", "cs", "open", "opens\x01"} {
		text, _, err := Fingerprint(name, Withdraw{})
		require.NoError(t, err)
		names[text] = true
	}
	require.Len(t, names, 6)
}

// rich has every kind of field.
type rich struct {
	S       string
	I       int64  `json:"i"`
	U       uint64 `json:"u,string"`
	F       float64
	B       bool
	Bytes   []byte
	P       *int
	L       []string
	M       map[string]int
	Deep    []map[int][]*inner
	In      inner
	Any     any
	T       time.Time
	R       json.RawMessage
	Skipped int `ccc:"-"`
}

type inner struct {
	X, Y string
	Z    *inner
}

func anyInner(depth int) *rapid.Generator[inner] {
	return rapid.Custom(func(t *rapid.T) inner {
		x := inner{X: short().Draw(t, "x"), Y: short().Draw(t, "y")}
		if depth > 0 && rapid.Bool().Draw(t, "more") {
			z := anyInner(depth-1).Draw(t, "z")
			x.Z = &z
		}
		return x
	})
}

func short() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "a", "b", "a\x00", "s\x01a"})
}

func anyRich() *rapid.Generator[rich] {
	return rapid.Custom(func(t *rapid.T) rich {
		few := rapid.IntRange(0, 2)
		deep := rapid.SliceOfN(rapid.MapOfN(few, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *inner {
			if rapid.Bool().Draw(t, "nil") {
				return nil
			}
			x := anyInner(1).Draw(t, "inner")
			return &x
		}), 0, 2), 0, 2), 0, 2)
		r := rich{
			S: short().Draw(t, "s"), I: int64(few.Draw(t, "i")), U: uint64(few.Draw(t, "u")), F: float64(few.Draw(t, "f")), B: rapid.Bool().Draw(t, "b"),
			Bytes: []byte(short().Draw(t, "bytes")), L: rapid.SliceOfN(short(), 0, 2).Draw(t, "l"), M: rapid.MapOfN(short(), few, 0, 2).Draw(t, "m"),
			Deep: deep.Draw(t, "deep"), In: anyInner(2).Draw(t, "in"),
			Any: rapid.SampledFrom([]any{nil, "", "a", 0, 1, true, []any{}, []any{"a"}, map[string]any{"a": 1}, Card{"a"}, Cash{"a"}}).Draw(t, "any"),
			T:   rapid.SampledFrom([]time.Time{{}, someDay, someDay.UTC()}).Draw(t, "t"),
			R:   json.RawMessage(rapid.SampledFrom([]string{"", `""`, "1", "[]", `{"a":[{}]}`}).Draw(t, "r")),
		}
		if rapid.Bool().Draw(t, "p") {
			r.P = new(int)
			*r.P = few.Draw(t, "*p")
		}
		return r
	})
}

// plain brings what counts as the same into one form.
func plain(r rich) rich {
	if len(r.Bytes) == 0 {
		r.Bytes = nil
	}
	if len(r.L) == 0 {
		r.L = nil
	}
	if len(r.M) == 0 {
		r.M = nil
	}
	if len(r.Deep) == 0 {
		r.Deep = nil
	}
	if len(r.R) == 0 {
		r.R = nil
	}
	r.Skipped = 0
	return r
}

// Two payloads have the same fingerprint if and only if they are the same. The
// second one is the first one with some of its fields drawn anew.
func TestFingerprintIsThePayload(t *testing.T) {
	same, other := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a := anyRich().Draw(t, "a")
		b, fresh := a, anyRich().Draw(t, "b")
		fields := reflect.TypeFor[rich]().NumField()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, fields-1), 0, 2).Draw(t, "changed") {
			reflect.ValueOf(&b).Elem().Field(i).Set(reflect.ValueOf(fresh).Field(i))
		}
		b.Skipped = 7
		equal := reflect.DeepEqual(plain(a), plain(b))
		require.Equal(t, equal, fingerprintOf(t, a) == fingerprintOf(t, &b), "%+v\n%+v", a, b)
		if equal {
			same++
		} else {
			other++
		}
	})
	require.Positive(t, same)
	require.Positive(t, other)
}

func TestFingerprintVolatile(t *testing.T) {
	for _, test := range []struct {
		command any
		want    bool
	}{
		{Withdraw{}, false}, {Timed{}, true}, {&Timed{}, true}, {Tree{}, false}, {TimedTree{}, true},
		{struct{ In []map[string]*Timed }{}, true}, // of the type, whatever the value
		{struct{ Any any }{}, false}, {struct{ Any any }{Withdraw{}}, false}, {struct{ Any any }{&Timed{}}, true},
		{[]any{1, Timed{}}, true},
	} {
		for range 2 { // the second one from the cache
			_, volatile, err := Fingerprint("c", test.command)
			require.NoError(t, err)
			require.Equal(t, test.want, volatile, "%#v", test.command)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	note := "for the rent"
	for name, command := range map[string]any{
		"two strings and an int": struct {
			From, To string
			Cents    int64
		}{"ada", "bob", 30},
		"with an ID, a time, a pointer and a list": struct {
			Account string
			ID      uuid.UUID
			When    time.Time
			Note    *string
			Lines   []string
		}{"ada", command, someDay, &note, []string{"a", "b"}},
		"with a map":      struct{ M map[string]int }{map[string]int{"a": 1, "b": 2, "c": 3}},
		"with raw JSON":   struct{ R json.RawMessage }{json.RawMessage(`{"account":"ada","cents":30,"lines":["a","b"]}`)},
		"with an any map": struct{ Any any }{map[string]any{"a": "x", "b": json.Number("1")}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Fingerprint("transfer", command); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
