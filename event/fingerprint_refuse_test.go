package event

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type (
	Unexported struct{ In []struct{ account string } }
	badText    struct{ X int }
	badJSON    struct{ X int }
	panics     struct{ X int }
	Embedding  struct {
		time.Time
		Account string
	}
	loop map[string]loop
	self *self
)

func (badText) MarshalText() ([]byte, error) { return nil, errors.New("no text today") }
func (b badJSON) MarshalJSON() ([]byte, error) {
	return map[int][]byte{1: []byte("{"), 2: []byte("\"\xff\""), 3: []byte("1 2"), 4: nil}[b.X], nil
}
func (panics) MarshalJSON() ([]byte, error) { panic("boom") }

func TestFingerprintRefuses(t *testing.T) {
	ring := &Tree{Name: "a"}
	ring.Kids = []*Tree{{Name: "b", Kids: []*Tree{ring}}}
	round := loop{}
	round["x"] = round
	list := []any{nil}
	list[0] = list
	var me self
	me = &me
	wide := &Tree{Name: strings.Repeat("x", 1<<10)} // 2^40 copies of one part
	for range 40 {
		wide = &Tree{Kids: []*Tree{wide, wide}}
	}
	for _, test := range []struct {
		command any
		why     string
	}{
		{nil, "the command is nil"},
		{(*Withdraw)(nil), "the command is nil"},
		{Unexported{}, `Unexported.In.account is not exported, so nobody could see it differ: export it, or tag it ccc:"-"`},
		{struct{ B, embText any }{}, `struct.embText is not exported`},
		{struct{ embText }{}, `embText is not exported`},
		{struct{ F func() }{}, `struct.F is of type func(), which has no value to compare`},
		{struct{ C []chan int }{}, `C is of type chan int`},
		{struct{ C map[string]complex64 }{}, `C is of type complex64`},
		{struct{ C map[complex64]string }{}, `C (a key) is of type complex64`},
		{struct{ F float64 }{math.NaN()}, "F: NaN"},
		{struct{ M map[string][]float32 }{map[string][]float32{"k": {1, float32(math.NaN())}}}, "M[k][1]: NaN"},
		{struct{ M map[float64]int }{map[float64]int{math.NaN(): 1}}, "M (a key): NaN"},
		{struct{ X any }{struct{ y int }{1}}, "X: struct.y is not exported"},
		{struct{ X []any }{[]any{func() {}}}, "X[0]: func is of type func()"},
		{struct {
			A string `json:"B"`
			B string
		}{}, `two fields named "B"`},
		{Embedding{}, "Embedding embeds time.Time, whose way to be encoded may hide the other fields: give the embedded field a name"},
		{struct{ X badText }{badText{1}}, "X: no text today"},
		{struct{ X badJSON }{badJSON{1}}, "X: its JSON: unexpected EOF"},
		{struct{ X badJSON }{badJSON{2}}, "X: its JSON is not valid UTF-8"},
		{struct{ X badJSON }{badJSON{3}}, "X: its JSON: text after"},
		{struct{ X badJSON }{badJSON{4}}, "X: its JSON: EOF"},
		{struct{ X panics }{panics{1}}, "panic: boom"},
		{struct{ T time.Time }{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, "T: Time.AppendText: year outside of range"},
		{ring, "Kids[0].Kids[0].Kids[0]"},
		{ring, "…: nested deeper than 10000, or holds itself"},
		{round, "or holds itself"},
		{list, "or holds itself"},
		{me, "or holds itself"},
		{wide, "more than 67108864 bytes: put a reference"},
	} {
		text, volatile, err := Fingerprint("open", test.command)
		require.ErrorIs(t, err, ErrFingerprint, test.why)
		require.ErrorContains(t, err, test.why)
		require.ErrorContains(t, err, `"open"`)
		require.Less(t, len(err.Error()), 400)
		require.Zero(t, text)
		require.False(t, volatile)
	}
	// What failed leaves nothing behind.
	require.Equal(t, fingerprintOf(t, Withdraw{"ada", 30}), fingerprintOf(t, Withdraw{"ada", 30}))
	require.NotPanics(t, func() { fingerprintOf(t, struct{ X panics }{}) }, "a zero value is not asked")
}

func TestFingerprintOfRecursiveTypes(t *testing.T) {
	leaf := &Tree{Name: "leaf"}
	a := fingerprintOf(t, Tree{Kids: []*Tree{leaf, leaf}})
	require.Equal(t, a, fingerprintOf(t, Tree{Kids: []*Tree{{Name: "leaf"}, {Name: "leaf"}}}), "shared or copied")
	require.NotEqual(t, a, fingerprintOf(t, Tree{Kids: []*Tree{{Kids: []*Tree{leaf, leaf}}}}))
	long := &inner{}
	for i := range 3000 {
		long = &inner{X: fmt.Sprint(i), Z: long}
	}
	fingerprintOf(t, long)
}

// Plans are made once per type, by whoever comes first.
func TestFingerprintConcurrently(t *testing.T) {
	type Fresh struct {
		A string
		B map[string]any
		C []*Fresh
	}
	fresh := Fresh{"a", map[string]any{"b": Fresh{A: "x"}}, []*Fresh{{A: "y"}}}
	var texts [16]string
	var group sync.WaitGroup
	for i := range texts {
		group.Go(func() { texts[i], _, _ = Fingerprint("c", fresh) })
	}
	group.Wait()
	for _, text := range texts {
		require.Equal(t, fingerprintOf(t, fresh), text)
	}
}
