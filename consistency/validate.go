package consistency

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of what can be queried, on every store alike (architecture, section 5).
const (
	// MaxValue is the greatest length in bytes of a queried value, and of a
	// type's name. A longer string in an event is stored but not indexed.
	MaxValue = 256
	// MaxCriteria is the greatest number of criteria in a query, counting each
	// type of a criterion: some servers expand them (Orisun 0.10 to 0.12 fail
	// between 500 and 999).
	MaxCriteria = 400

	// CommandKey is the top-level key under which each event that a command
	// wrote carries the command's ID.
	CommandKey = "commandId"
)

// ErrQuery is what [Query.Validate] returns, with the reason around it.
var ErrQuery = errors.New("query cannot be asked")

// Reserved says whether a key of event data is kept for the framework and for
// servers: commandId, eventType, and all that begin with two underscores.
func Reserved(key string) bool {
	return key == CommandKey || key == "eventType" || strings.HasPrefix(key, "__")
}

// Validate says why stores refuse q, or nil. Errors wrap [ErrQuery].
func (q Query) Validate() error {
	if q.IsZero() {
		return fmt.Errorf("consistency: %w: it can match nothing: use Where, Type or All, and do not AND what excludes each other", ErrQuery)
	}
	size := 0
	for _, c := range q.criteria {
		size += max(1, len(c.Types))
		for _, t := range c.Types {
			if err := CheckType(t); err != nil {
				return err
			}
		}
		for _, t := range c.Tags {
			if !validKey(t.Key) {
				return fmt.Errorf("consistency: %w: key %.80q: a key is letters, digits, '_', '.', '-', begins with a letter or '_', and is not eventType or __…: store the fact under another key", ErrQuery, t.Key)
			}
			if err := checkText(t.Value); err != nil {
				return fmt.Errorf("consistency: %w: key %q: value %.80q: %w", ErrQuery, t.Key, t.Value, err)
			}
		}
	}
	if size > MaxCriteria {
		return fmt.Errorf("consistency: %w: %d criteria (each type counts), the limit is %d: split the command or carry state in events", ErrQuery, size, MaxCriteria)
	}
	return nil
}

// CheckType says why an event type cannot be named so, or nil. Errors wrap
// [ErrQuery].
func CheckType(name string) error {
	if err := checkText(name); err != nil || name == "" {
		return fmt.Errorf("consistency: %w: event type %.80q must be 1 to %d bytes of UTF-8 without U+0000", ErrQuery, name, MaxValue)
	}
	return nil
}

func validKey(key string) bool {
	if key == "" || len(key) > MaxValue || Reserved(key) && key != CommandKey {
		return false
	}
	for i := range len(key) {
		switch c := key[i]; {
		case c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c == '.' || c == '-' || c >= '0' && c <= '9'):
		default:
			return false
		}
	}
	return true
}

func checkText(s string) error {
	switch {
	case len(s) > MaxValue:
		return fmt.Errorf("it has %d bytes, only strings up to %d are indexed: query a hash of it", len(s), MaxValue)
	case !utf8.ValidString(s):
		return errors.New("it is not UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("it holds U+0000")
	}
	return nil
}
