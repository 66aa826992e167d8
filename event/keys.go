package event

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

var (
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	numberType          = reflect.TypeFor[json.Number]()
)

// implements says whether values of t, or pointers to them, have the methods.
func implements(t, methods reflect.Type) bool {
	return t.Implements(methods) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(methods)
}

// keySet is what is known about the top-level keys of a Go type's JSON.
type keySet struct {
	open   bool // any key may be there
	fields map[string]keyField
	// lost are keys of several fields, none of which encoding/json writes.
	lost []string
}

type keyField struct {
	path string // of the Go field: Opened.Account
	// never says why the value is never a JSON string; empty where it may be.
	never string
}

// has says whether the key may stand there as a string.
func (s keySet) has(key string) bool {
	f, ok := s.fields[key]
	return s.open || ok && f.never == ""
}

// keysOf works out t's keys by the rules of encoding/json.
func keysOf(t reflect.Type) keySet {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || implements(t, marshalerType) || implements(t, unmarshalerType) {
		return keySet{open: true}
	}
	found := jsonFields(t)
	set := keySet{fields: make(map[string]keyField, len(found))}
	for len(found) > 0 {
		same := 1
		for same < len(found) && found[same].key == found[0].key {
			same++
		}
		// The first one dominates, unless a second one is just as good.
		if f := found[0]; same > 1 && found[1].depth == f.depth && found[1].tagged == f.tagged {
			set.lost = append(set.lost, f.key)
		} else {
			set.fields[f.key] = keyField{path: f.path, never: neverString(f.typ, f.quoted)}
		}
		found = found[same:]
	}
	return set
}

type jsonField struct {
	key, path string
	typ       reflect.Type
	depth     int
	tagged    bool
	quoted    bool // has the option ",string", and it applies
}

// jsonFields lists the fields that compete for t's keys: by key, the dominant
// one first.
func jsonFields(t reflect.Type) []jsonField {
	type level struct {
		typ    reflect.Type
		path   string
		copies int
	}
	var out []jsonField
	visited := map[reflect.Type]bool{}
	next := []level{{t, baseName(t), 1}}
	for depth := 0; len(next) > 0; depth++ {
		current := next
		next = nil
		for _, l := range current {
			if visited[l.typ] {
				continue
			}
			visited[l.typ] = true
			for f := range l.typ.Fields() {
				name, options, skip := jsonTag(f)
				if skip {
					continue
				}
				ft := f.Type
				if ft.Name() == "" && ft.Kind() == reflect.Pointer {
					ft = ft.Elem()
				}
				if f.Anonymous && name == "" && ft.Kind() == reflect.Struct {
					if i := slices.IndexFunc(next, func(n level) bool { return n.typ == ft }); i >= 0 {
						next[i].copies++
					} else {
						next = append(next, level{ft, l.path + "." + f.Name, 1})
					}
					continue
				}
				field := jsonField{
					key: cmp.Or(name, f.Name), path: l.path + "." + f.Name, typ: f.Type, depth: depth, tagged: name != "",
					quoted: slices.Contains(options, "string") && quotable(ft.Kind()),
				}
				out = append(out, field)
				if l.copies > 1 { // a second one, so that they cancel each other
					out = append(out, field)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b jsonField) int {
		byTag := 0
		if a.tagged != b.tagged {
			byTag = 1
			if a.tagged {
				byTag = -1
			}
		}
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.depth, b.depth), byTag)
	})
	return out
}

// jsonTag reads a field's tag as encoding/json does, and says whether that
// passes over the field.
func jsonTag(f reflect.StructField) (name string, options []string, skip bool) {
	if !f.IsExported() {
		t := f.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if !f.Anonymous || t.Kind() != reflect.Struct {
			return "", nil, true
		}
	}
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", nil, true
	}
	options = strings.Split(tag, ",")
	if name = options[0]; !validTag(name) {
		name = ""
	}
	return name, options[1:], false
}

func validTag(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return s != ""
}

func quotable(k reflect.Kind) bool {
	return k == reflect.String || k >= reflect.Bool && k <= reflect.Float64
}

// neverString says why values of t are never JSON strings; empty where they may
// be.
func neverString(t reflect.Type, quoted bool) string {
	full := t
	for range 100 { // type P *P
		if implements(t, marshalerType) || implements(t, textMarshalerType) {
			return ""
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	switch k := t.Kind(); {
	case quoted && k == reflect.String && t != numberType:
		return `is a string with the option ",string", which stores it with quotes inside: drop the option`
	case quoted || k == reflect.Interface, k == reflect.String && t != numberType:
		return ""
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !implements(t.Elem(), marshalerType) && !implements(t.Elem(), textMarshalerType):
		return "" // base64
	case quotable(k):
		return fmt.Sprintf(`is of type %s: store it as a string (the option ",string" in its JSON tag, and a new version of the type if events are stored)`, full)
	default:
		return fmt.Sprintf("is of type %s: store what is queried in a string of its own", full)
	}
}
