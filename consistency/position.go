package consistency

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// Position is the place of an event in the log of one boundary. Positions grow
// in commit order; nothing else may be read out of them: they have gaps, and
// two of them tell no number of events. The zero Position lies before the first
// event; as an observed position it means "no match yet".
//
// Positions are comparable with == and ordered by [Position.Compare]. Positions
// of different boundaries must not be compared.
type Position struct{ major, minor uint64 }

// NewPosition is for authors of stores: it makes a position out of the one or
// two numbers that their log counts by. Positions are ordered by major, then by
// minor. (0, 0) is the zero position, which no event may have.
func NewPosition(major, minor uint64) Position { return Position{major, minor} }

// Parts returns the numbers that [NewPosition] was given.
func (p Position) Parts() (major, minor uint64) { return p.major, p.minor }

// IsZero says whether p lies before the first event.
func (p Position) IsZero() bool { return p == Position{} }

// Compare returns -1, 0 or +1 as p lies before, at or after q.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.major, q.major); c != 0 {
		return c
	}
	return cmp.Compare(p.minor, q.minor)
}

// After says whether p lies after q.
func (p Position) After(q Position) bool { return p.Compare(q) > 0 }

// Prev returns the greatest position below p, for reads of what was there
// right before an event. The zero position is its own.
func (p Position) Prev() Position {
	switch {
	case p.minor > 0:
		return Position{p.major, p.minor - 1}
	case p.major > 0:
		return Position{p.major - 1, math.MaxUint64}
	}
	return p
}

// String returns the text form of p: letters and digits only, and texts sort
// (byte by byte) as their positions do. [ParsePosition] reads it.
func (p Position) String() string {
	var buf [48]byte
	return string(p.append(buf[:0]))
}

// A number is written as its decimal digits after a letter for their count, so
// that longer numbers sort later; a position with a major number begins with z.
func (p Position) append(b []byte) []byte {
	if p.major > 0 {
		b = appendNumber(append(b, 'z'), p.major)
	}
	return appendNumber(b, p.minor)
}

func appendNumber(b []byte, n uint64) []byte {
	at := len(b)
	b = strconv.AppendUint(append(b, 0), n, 10)
	b[at] = 'a' + byte(len(b)-at-2)
	return b
}

// ParsePosition reads what [Position.String] wrote, and nothing else.
func ParsePosition(text string) (Position, error) {
	var p Position
	rest, ok := text, true
	if len(rest) > 0 && rest[0] == 'z' {
		p.major, rest, ok = cutNumber(rest[1:])
		ok = ok && p.major > 0
	}
	if ok {
		p.minor, rest, ok = cutNumber(rest)
	}
	if !ok || rest != "" {
		return Position{}, fmt.Errorf("consistency: %q is not a position: use the text that a position was written as", text)
	}
	return p, nil
}

func cutNumber(text string) (n uint64, rest string, ok bool) {
	if text == "" || text[0] < 'a' || text[0] > 't' {
		return 0, "", false
	}
	end := 1 + int(text[0]-'a') + 1
	if len(text) < end {
		return 0, "", false
	}
	digits := text[1:end]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits[0] == '+' || len(digits) > 1 && digits[0] == '0' {
		return 0, "", false
	}
	return n, text[end:], true
}

// MarshalText implements [encoding.TextMarshaler] with the form of String.
func (p Position) MarshalText() ([]byte, error) { return p.append(nil), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Position) UnmarshalText(text []byte) error {
	read, err := ParsePosition(string(text))
	if err == nil {
		*p = read
	}
	return err
}
