package event

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/cccgo/ccc/consistency"
)

// NewCodec makes a codec of these event types. It panics, saying what to do,
// where the program is wrong: a name that is used twice, a reserved name or
// key, a chain of upcasts that does not lead to the current type, or a Go type
// that is no JSON object or that encoding/json would not read back as it was
// (fields that are not exported, for example).
func NewCodec(kinds ...Kind) *Codec {
	c := &Codec{byName: map[string]*kind{}, byType: map[reflect.Type]*kind{}}
	for i, given := range kinds {
		if err := c.add(given); err != nil {
			panic(fmt.Sprintf("event: NewCodec: kind %d of %d: %v", i+1, len(kinds), err))
		}
	}
	slices.Sort(c.names)
	c.keys.build(c.kinds)
	return c
}

func (c *Codec) add(given Kind) error {
	switch {
	case given.err != nil:
		return given.err
	case given.goType == nil:
		return fmt.Errorf("it is empty: make it with event.Of")
	case c.byType[given.goType] != nil:
		return fmt.Errorf("%s is in the codec already: add it once", given.goType)
	}
	k := &kind{name: given.name, goType: given.goType, names: slices.Concat([]string{given.name}, given.formerly)}
	for _, name := range k.names {
		if err := c.addName(name, k); err != nil {
			return fmt.Errorf("%s: %w", k.goType, err)
		}
	}
	slices.Sort(k.names)
	c.names = append(c.names, k.names...)
	if err := k.addVersions(given); err != nil {
		return fmt.Errorf("%s (%q): %w", k.goType, k.name, err)
	}
	c.byType[k.goType] = k
	c.kinds = append(c.kinds, k)
	return nil
}

func (c *Codec) addName(name string, k *kind) error {
	if strings.HasPrefix(name, reservedPrefix) {
		return fmt.Errorf("name %q: names that begin with %q are the framework's: use another", name, reservedPrefix)
	}
	if err := consistency.All().Type(name).Validate(); err != nil {
		return fmt.Errorf("name %.80q: %w", name, err)
	}
	switch other := c.byName[name]; {
	case other == k:
		return fmt.Errorf("name %q is given twice: Formerly takes names other than EventType's", name)
	case other != nil:
		return fmt.Errorf("name %q belongs to %s already: events under it could be either, give one of them another name", name, other.goType)
	}
	c.byName[name] = k
	return nil
}

func (k *kind) addVersions(given Kind) error {
	if err := unfit(k.goType); err != nil {
		return err
	}
	if err := notObject(k.goType); err != nil {
		return err
	}
	for i, up := range given.older {
		if up.apply == nil {
			return fmt.Errorf("upcast %d is empty: make it with event.From and a function", i+1)
		}
		next := k.goType
		if i+1 < len(given.older) {
			next = given.older[i+1].from
		}
		if up.to != next {
			return fmt.Errorf("broken chain: the upcast from version %d gives %s, but version %d is %s: steps go from each version to the next, oldest first", i+1, up.to, i+2, next)
		}
		if err := noOlder(up.from); err != nil {
			return fmt.Errorf("version %d: %w", i+1, err)
		}
		k.versions = append(k.versions, version{goType: up.from, decode: up.decode, upcast: up.apply})
	}
	k.versions = append(k.versions, version{goType: k.goType, decode: given.decode})
	for i := range k.versions {
		v := &k.versions[i]
		v.keys = keysOf(v.goType)
		v.numbers = holdsInterface(v.goType)
		if key, field, found := reservedIn(v.keys); found {
			return fmt.Errorf("version %d: key %q (field %s) is reserved for the framework, or read as a reserved one: rename it", i+1, key, field.path)
		}
	}
	return nil
}

// noOlder says why t cannot be the type of an older version, or nil. Only
// decoding matters: it is never written again.
func noOlder(t reflect.Type) error {
	base := t
	if t.Kind() == reflect.Pointer {
		base = t.Elem()
	}
	switch {
	case implements(base, unmarshalerType), base.Kind() == reflect.Struct, base.Kind() == reflect.Map:
		return nil
	case base.Kind() == reflect.Interface:
		return fmt.Errorf("%s is an interface: use map[string]any", t)
	}
	return fmt.Errorf("%s does not decode from a JSON object: use a struct", t)
}
