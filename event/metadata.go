package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Metadata stands beside an event's data and is not queried. Stores keep it as
// one JSON object: the framework's own keys begin with "ccc.", every other key
// is in Custom.
type Metadata struct {
	Command     string // name of the command; empty for events of other writers
	Fingerprint string // of the command, see Fingerprint
	Events      int    // how many events its save has; 0 for other writers
	Version     int    // of the type the data was written as; 0 means 1
	Correlation string // what began it all: a command's or message's ID
	Causation   string // what led to it directly
	Depth       int    // how many reactions led here from the first command

	// Custom is what the caller gave (command.WithMetadata), and what other
	// writers left. It is shared between records and must not be changed.
	Custom map[string]string
}

const reservedPrefix = "ccc."

// ReservedMetadata says whether a custom key is one of the framework's own.
func ReservedMetadata(key string) bool { return strings.HasPrefix(key, reservedPrefix) }

// texts and numbers list the framework's keys and where they are kept.
func (m *Metadata) texts() [4]struct {
	key  string
	text *string
} {
	return [4]struct {
		key  string
		text *string
	}{
		{"ccc.causation", &m.Causation}, {"ccc.command", &m.Command},
		{"ccc.correlation", &m.Correlation}, {"ccc.fingerprint", &m.Fingerprint},
	}
}

func (m *Metadata) numbers() [3]struct {
	key    string
	number *int
} {
	return [3]struct {
		key    string
		number *int
	}{{"ccc.depth", &m.Depth}, {"ccc.events", &m.Events}, {"ccc.version", &m.Version}}
}

// MarshalJSON writes one JSON object without the fields that are zero.
func (m Metadata) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, 8+len(m.Custom))
	for k, v := range m.Custom {
		if ReservedMetadata(k) {
			return nil, fmt.Errorf("event: metadata key %q: keys that begin with %q are the framework's: use another", k, reservedPrefix)
		}
		out[k] = v
	}
	for _, f := range m.texts() {
		if *f.text != "" {
			out[f.key] = *f.text
		}
	}
	for _, f := range m.numbers() {
		if *f.number != 0 {
			out[f.key] = *f.number
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an object of any writer: values that are no strings are
// kept in Custom as their JSON text.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	if m.plain(data) {
		return nil
	}
	return m.anyForm(data)
}

func (m *Metadata) anyForm(data []byte) error {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("event: metadata: %w", err)
	}
	*m = Metadata{}
	take := func(key string, into any) error {
		raw, ok := in[key]
		if !ok {
			return nil
		}
		delete(in, key)
		if err := json.Unmarshal(raw, into); err != nil {
			return fmt.Errorf("event: metadata key %q: %w", key, err)
		}
		return nil
	}
	for _, f := range m.texts() {
		if err := take(f.key, f.text); err != nil {
			return err
		}
	}
	for _, f := range m.numbers() {
		if err := take(f.key, f.number); err != nil {
			return err
		}
	}
	for k, raw := range in {
		if m.Custom == nil {
			m.Custom = make(map[string]string, len(in))
		}
		var text string
		if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
			text = string(bytes.TrimSpace(raw))
		}
		m.Custom[k] = text
	}
	return nil
}

// plain reads an object as stores write nearly all (PostgreSQL's jsonb with
// spaces): names and texts in ASCII without escapes, and small whole numbers.
// False: it is of another form.
func (m *Metadata) plain(data []byte) bool {
	*m = Metadata{}
	rest, ok := strings.CutPrefix(string(data), "{")
	for first := true; ok; first = false {
		if rest == "}" {
			return true
		}
		if !first {
			if rest, ok = strings.CutPrefix(rest, ","); !ok {
				return false
			}
			rest = strings.TrimPrefix(rest, " ")
		}
		var key string
		if key, rest, ok = plainText(rest); !ok || !strings.HasPrefix(rest, ":") {
			return false
		}
		rest = strings.TrimPrefix(rest[1:], " ")
		if number := m.number(key); number != nil {
			*number, rest, ok = plainNumber(rest)
			continue
		}
		var value string
		if value, rest, ok = plainText(rest); !ok {
			return false
		}
		m.put(key, value)
	}
	return false
}

func (m *Metadata) put(key, value string) {
	if ReservedMetadata(key) {
		for _, f := range m.texts() {
			if f.key == key {
				*f.text = value
				return
			}
		}
	}
	if m.Custom == nil {
		m.Custom = make(map[string]string, 1)
	}
	m.Custom[key] = value
}

func (m *Metadata) number(key string) *int {
	if ReservedMetadata(key) {
		for _, f := range m.numbers() {
			if f.key == key {
				return f.number
			}
		}
	}
	return nil
}

// plainText cuts a JSON string without escapes from the front of a text.
func plainText(in string) (text, rest string, ok bool) {
	if in == "" || in[0] != '"' {
		return "", "", false
	}
	for i := 1; i < len(in); i++ {
		switch c := in[i]; {
		case c == '"':
			return in[1:i], in[i+1:], true
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return "", "", false
		}
	}
	return "", "", false
}

func plainNumber(in string) (n int, rest string, ok bool) {
	end := 0
	for end < len(in) && '0' <= in[end] && in[end] <= '9' {
		n = n*10 + int(in[end]-'0')
		end++
	}
	return n, in[end:], 0 < end && end < 10 && in[0] != '0'
}
