package consistency

import "encoding/json"

// Value returns the text under a top-level key of an event's data, as a store
// has it: what stores have is checked, so it is read without checking it again.
// Ok is false where there is none. The text may be part of data, and must not
// be changed.
func Value(data json.RawMessage, key string) (text []byte, ok bool) {
	defer func() {
		if recover() != nil { // the data ends early: it is no JSON
			text, ok = nil, false
		}
	}()
	s := scanner{data: data}
	for s.space(); s.data[s.at] == '{' || s.data[s.at] == ','; s.space() {
		s.at++
		s.space()
		if s.data[s.at] != '"' {
			return nil, false
		}
		name, escaped, err := s.raw()
		if err != nil {
			return nil, false
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
				return nil, false
			}
			continue
		}
		text, escaped, err := s.raw()
		switch {
		case err != nil:
			return nil, false
		case found && escaped:
			plain, err := unescape(text)
			return []byte(plain), err == nil
		case found:
			return text[1 : len(text)-1], true
		}
	}
	return nil, false
}
