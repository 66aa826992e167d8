package consistency

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrData is what [Tags] returns, with the reason around it.
var ErrData = errors.New("event data cannot be stored")

// Matches says whether an event of this type with this data is met by q. Data
// that is no event data ([Tags] refuses it) has no keys.
func (q Query) Matches(eventType string, data json.RawMessage) bool {
	var tags []Tag
	read := false
	for _, c := range q.criteria {
		if len(c.Tags) > 0 && !read {
			tags, _ = Tags(data)
			read = true
		}
		if c.Matches(eventType, tags) {
			return true
		}
	}
	return false
}

// Matches is [Query.Matches] for one criterion and tags that were read before.
func (c Criterion) Matches(eventType string, tags []Tag) bool {
	if len(c.Types) > 0 && !contains(c.Types, eventType) {
		return false
	}
	for _, t := range c.Tags {
		if !contains(tags, t) {
			return false
		}
	}
	return true
}

func contains[T comparable](in []T, x T) bool {
	for _, y := range in {
		if x == y {
			return true
		}
	}
	return false
}

// Tags returns what of an event's data can be queried: its top-level keys whose
// values are JSON strings of at most [MaxValue] bytes. Keys are in the order of
// the data. Every store indexes exactly these.
//
// The error, which wraps [ErrData], is for data that no store takes: anything
// but one JSON object in UTF-8 without U+0000, lone surrogates, keys that stand
// twice and reserved keys (commandId may stand: commands write it).
func Tags(data json.RawMessage) ([]Tag, error) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, fmt.Errorf("consistency: %w: not JSON in UTF-8", ErrData)
	}
	s := scanner{data: data}
	if len(data) <= shared {
		s.text = string(data)
	}
	s.space()
	if s.data[s.at] != '{' {
		return nil, fmt.Errorf("consistency: %w: not a JSON object", ErrData)
	}
	s.at++
	tags := make([]Tag, 0, 4)
	var seen nameSet
	for {
		s.space()
		switch s.data[s.at] {
		case '}':
			return tags, nil
		case ',':
			s.at++
			continue
		}
		key, err := s.string()
		if err != nil {
			return nil, err
		}
		if !seen.add(key) {
			return nil, fmt.Errorf("consistency: %w: key %.80q stands twice", ErrData, key)
		}
		if Reserved(key) && key != CommandKey {
			return nil, fmt.Errorf("consistency: %w: key %.80q is reserved: rename it", ErrData, key)
		}
		s.space()
		s.at++ // the colon
		s.space()
		if s.data[s.at] != '"' {
			if err := s.skip(); err != nil {
				return nil, fmt.Errorf("%w, under key %.80q", err, key)
			}
			continue
		}
		value, err := s.string()
		if err != nil {
			return nil, fmt.Errorf("%w, under key %.80q", err, key)
		}
		if len(value) <= MaxValue {
			tags = append(tags, Tag{key, value})
		}
	}
}

// nameSet is a set of keys that needs no map for the usual few.
type nameSet struct {
	few  [16]string
	n    int
	many map[string]bool
}

func (s *nameSet) add(name string) (isNew bool) {
	if contains(s.few[:min(s.n, len(s.few))], name) || s.many[name] {
		return false
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
	} else {
		if s.many == nil {
			s.many = map[string]bool{}
		}
		s.many[name] = true
	}
	s.n++
	return true
}

// shared is the most data whose keys and values are parts of one string: whoever
// keeps one of them keeps all.
const shared = 4 << 10

// scanner walks over JSON that is known to be valid.
type scanner struct {
	data []byte
	text string // the same, where it may be shared
	at   int
}

func (s *scanner) space() {
	for {
		switch s.data[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// string reads the string that begins here.
func (s *scanner) string() (string, error) {
	raw, escaped, err := s.raw()
	switch {
	case err != nil:
		return "", err
	case escaped:
		return unescape(raw)
	case s.text != "":
		return s.text[s.at-len(raw)+1 : s.at-1], nil
	}
	return string(raw[1 : len(raw)-1]), nil
}

// unescape stands alone because its result is on the heap.
func unescape(raw []byte) (text string, err error) {
	err = json.Unmarshal(raw, &text)
	return text, err
}

// raw passes over the string that begins here, quotes included.
func (s *scanner) raw() (raw []byte, escaped bool, err error) {
	begin := s.at
	for s.at++; s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] != '\\' {
			continue
		}
		escaped = true
		s.at++
		if s.data[s.at] != 'u' {
			continue
		}
		switch code := hex4(s.data[s.at+1:]); {
		case code == 0:
			err = fmt.Errorf("consistency: %w: U+0000", ErrData)
		case code >= 0xD800 && code < 0xDC00 && s.lowSurrogate(s.at+5):
			s.at += 6
		case code >= 0xD800 && code < 0xE000:
			err = fmt.Errorf("consistency: %w: lone surrogate", ErrData)
		}
		s.at += 4
	}
	s.at++
	return s.data[begin:s.at], escaped, err
}

func (s *scanner) lowSurrogate(at int) bool {
	if at+6 > len(s.data) || s.data[at] != '\\' || s.data[at+1] != 'u' {
		return false
	}
	code := hex4(s.data[at+2:])
	return code >= 0xDC00 && code < 0xE000
}

func hex4(b []byte) (code int) {
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		code = code<<4 | int(c)
	}
	return code
}

// skip passes over a value that is no string.
func (s *scanner) skip() error {
	for depth := 0; ; {
		switch s.data[s.at] {
		case '"':
			if _, _, err := s.raw(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return nil
			}
			depth--
		case ',':
			if depth == 0 {
				return nil
			}
		}
		s.at++
	}
}
