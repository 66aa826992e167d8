package consistency

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// numbers are drawn near the places where the text gets longer or ends.
func numbers() *rapid.Generator[uint64] {
	edges := []uint64{0, 1, 9, 10, 99, 100, 1<<53 + 1, math.MaxInt64, math.MaxUint64 - 1, math.MaxUint64}
	return rapid.OneOf(rapid.SampledFrom(edges), rapid.Uint64(), rapid.Uint64Range(0, 200))
}

func positions() *rapid.Generator[Position] {
	return rapid.Custom(func(t *rapid.T) Position {
		if rapid.Bool().Draw(t, "one number") {
			return NewPosition(0, numbers().Draw(t, "minor"))
		}
		return NewPosition(numbers().Draw(t, "major"), numbers().Draw(t, "minor"))
	})
}

func TestPositionTextSortsAndReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := positions().Draw(t, "p"), positions().Draw(t, "q")
		require.Equal(t, p.Compare(q), strings.Compare(p.String(), q.String()), "%s and %s", p, q)
		require.Equal(t, -p.Compare(q), q.Compare(p))
		require.Equal(t, p == q, p.Compare(q) == 0)
		require.Equal(t, p.Compare(q) > 0, p.After(q))
		require.Regexp(t, `^[a-z0-9]+$`, p.String())

		back, err := ParsePosition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, back)
		require.Equal(t, p, NewPosition(p.Parts()))

		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, p, back)
	})
}

// Only what String wrote is read: two texts for one position would differ as
// keys.
func TestPositionHasOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`z?[a-u][0-9+]{0,21}([a-u][0-9]{0,21})?`), rapid.String(),
		).Draw(t, "text")
		if p, err := ParsePosition(text); err == nil {
			require.Equal(t, p.String(), text)
		} else {
			require.ErrorContains(t, err, "is not a position")
			require.Zero(t, p)
		}
	})
	for _, text := range []string{"", "a", "z", "za0a1", "b01", "a+", "b+1", "a1 ", " a1", "A1", "t99999999999999999999", "t18446744073709551616", "a1a1", "za1", "za1a", "zza1a1", "zua1a1"} {
		_, err := ParsePosition(text)
		require.Error(t, err, "%q", text)
		p := NewPosition(1, 2)
		require.Error(t, p.UnmarshalText([]byte(text)))
		require.Equal(t, NewPosition(1, 2), p, "a failed read changes nothing")
	}
}

func TestPositionPrev(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := positions().Draw(t, "p")
		prev := p.Prev()
		if p.IsZero() {
			require.Equal(t, p, prev)
			return
		}
		require.True(t, p.After(prev))
		between := positions().Draw(t, "between")
		require.False(t, between.After(prev) && p.After(between), "%s lies between %s and %s", between, prev, p)
	})
	require.Equal(t, NewPosition(1, math.MaxUint64), NewPosition(2, 0).Prev())
	require.Equal(t, NewPosition(2, 0), NewPosition(2, 1).Prev())
	require.True(t, NewPosition(0, 0).IsZero())
	require.False(t, NewPosition(0, 1).IsZero())
	require.False(t, NewPosition(1, 0).IsZero())
}

func TestPositionTextIsStored(t *testing.T) { // projectors keep it: it never changes
	for text, p := range map[string]Position{
		"a0": {}, "a7": NewPosition(0, 7), "b10": NewPosition(0, 10),
		"t18446744073709551615": NewPosition(0, math.MaxUint64), "za1a0": NewPosition(1, 0), "zb12c345": NewPosition(12, 345),
	} {
		require.Equal(t, text, p.String())
	}
}
