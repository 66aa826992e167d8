package consistency

import "encoding/json"

// Value returns the text under a top-level key of an event's data, as a store
// has it: what stores have is checked, so it is read without checking it again.
// Ok is false where there is none.
func Value(data json.RawMessage, key string) (value string, ok bool) {
	defer func() {
		if recover() != nil { // the data ends early: it is no JSON
			value, ok = "", false
		}
	}()
	s := scanner{data: data}
	for s.space(); s.data[s.at] == '{' || s.data[s.at] == ','; s.space() {
		s.at++
		s.space()
		if s.data[s.at] != '"' {
			return "", false
		}
		name, escaped, err := s.raw()
		if err != nil {
			return "", false
		}
		found := string(name[1:len(name)-1]) == key
		if escaped {
			text, err := unescape(name)
			found = err == nil && text == key
		}
		s.space()
		s.at++ // the colon
		s.space()
		if s.data[s.at] != '"' {
			if found || s.skip() != nil {
				return "", false
			}
			continue
		}
		text, escaped, err := s.raw()
		switch {
		case err != nil:
			return "", false
		case found && escaped:
			value, err = unescape(text)
			return value, err == nil
		case found:
			return string(text[1 : len(text)-1]), true
		}
	}
	return "", false
}
