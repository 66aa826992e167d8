package event

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cccgo/ccc/consistency"
)

func (c *Codec) typeError(name string) error {
	hint := didYouMean(name, c.names)
	for _, k := range c.kinds {
		if k.goType.String() == name || baseName(k.goType) == name { // the Go type's name, not the event's
			hint = fmt.Sprintf(" (did you mean %q?)", k.name)
		}
	}
	return fmt.Errorf("event: %w: %w: %q%s: use event.TypeOf, or add the type to event.NewCodec", consistency.ErrQuery, ErrUnknownType, name, hint)
}

func keyError(format string, args ...any) error {
	return fmt.Errorf("event: %w: %w: %s", consistency.ErrQuery, ErrQueryKey, fmt.Sprintf(format, args...))
}

// keyError says why the criterion meets no type of the codec.
func (c *Codec) keyError(cr *consistency.Criterion) error {
	kinds, where := c.kinds, "any event type of the codec"
	if len(cr.Types) > 0 {
		kinds, where = nil, strings.Join(cr.Types, ", ")
		for _, name := range cr.Types {
			if k := c.byName[name]; k != nil {
				kinds = append(kinds, k)
			}
		}
	}
	var keys []string
	for _, t := range cr.Tags {
		if t.Key == consistency.CommandKey {
			continue
		}
		keys = append(keys, t.Key)
		found := false
		for _, k := range kinds {
			found = found || k.meetsAny(&c.keys, []consistency.Tag{t})
		}
		if !found {
			return c.oneKeyError(t.Key, kinds, where)
		}
	}
	return keyError("no single one of %s has all of the keys %s as strings: join two queries by Or, or ask for fewer keys", where, quoted(keys))
}

func (c *Codec) oneKeyError(key string, kinds []*kind, where string) error {
	for _, k := range kinds {
		for _, v := range slices.Backward(k.versions) {
			if f, ok := v.keys.fields[key]; ok {
				return keyError("%q is never a JSON string: field %s %s", key, f.path, f.never)
			}
		}
	}
	for _, k := range c.kinds {
		if k.meetsAny(&c.keys, []consistency.Tag{{Key: key}}) {
			return keyError("%q is not in %s, only in others such as %q", key, where, k.name)
		}
	}
	return keyError("%q is not in %s%s", key, where, meant(key, kinds))
}

// meant says which key was probably meant, or which there are.
func meant(key string, kinds []*kind) string {
	known := map[string]bool{}
	fields := map[string]string{} // key by the name of its Go field
	for _, k := range kinds {
		for _, v := range k.versions {
			for name, f := range v.keys.fields {
				if f.never == "" {
					known[name] = true
					fields[f.path[strings.LastIndexByte(f.path, '.')+1:]] = name
				}
			}
		}
	}
	if name := fields[key]; name != "" {
		return fmt.Sprintf(" (did you mean %q, the key of field %s?)", name, key)
	}
	names := slices.Sorted(maps.Keys(known))
	if best := closest(key, names); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	if len(names) == 0 {
		return ", and nothing there can be queried"
	}
	const few = 12
	if len(names) > few {
		return fmt.Sprintf(": keys there are %s and %d more", quoted(names[:few]), len(names)-few)
	}
	return ": keys there are " + quoted(names)
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
}

// versionError is about keys that some version of k has, and the slot's has not.
func (k *kind) versionError(tags []consistency.Tag, slot int) error {
	version := slot - k.first
	keys := k.versions[version].keys
	missing := ""
	for _, t := range tags {
		if t.Key != consistency.CommandKey && !keys.has(t.Key) {
			missing = t.Key
			break
		}
	}
	var has []string
	for _, name := range slices.Sorted(maps.Keys(keys.fields)) {
		if keys.has(name) {
			has = append(has, name)
		}
	}
	return keyError("%q is not a string of version %d of %q, only of another version, and upcasts run after the match: events of version %d would be left out: join a query for them by Or (version %d has %s)",
		missing, version+1, k.name, version+1, version+1, cmp.Or(quoted(has), "no key that can be queried"))
}
