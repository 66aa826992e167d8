package event

import (
	"fmt"
	"slices"

	"github.com/cccgo/ccc/consistency"
)

// Query checks q against this codec and adds what belongs to it: where a
// criterion names an event type, the other names of that type. A command's
// contexts and a projector's query pass through it, so that a mistyped name
// does not observe nothing in silence. Errors wrap [consistency.ErrQuery], and
//   - [ErrUnknownType] where a type is not in the codec,
//   - [ErrQueryKey] where a criterion asks for keys that no type it can meet has
//     as strings (types whose keys cannot be known, such as maps, have every key),
//   - ErrQueryKey too where only some versions of a type have the keys: an
//     upcast happens after the match, so events of the others would be left
//     out. Meet them by another criterion: Where(new, v).Or(Where(old, v)).
//
// It allocates nothing where it adds nothing.
func (c *Codec) Query(q consistency.Query) (consistency.Query, error) {
	if err := q.Validate(); err != nil {
		return consistency.Query{}, err
	}
	criteria := q.Criteria()
	complete := true
	for i := range criteria {
		all, err := c.checkTypes(&criteria[i])
		if err != nil {
			return consistency.Query{}, err
		}
		complete = complete && all
		if !c.meetsAny(&criteria[i]) {
			return consistency.Query{}, c.keyError(&criteria[i])
		}
	}
	for i := range criteria {
		if err := c.checkVersions(criteria, i); err != nil {
			return consistency.Query{}, err
		}
	}
	if complete {
		return q, nil
	}
	q = q.AddTypes(func(name string) []string {
		if k := c.byName[name]; k != nil {
			return k.names
		}
		return nil
	})
	if err := q.Validate(); err != nil {
		return consistency.Query{}, fmt.Errorf("event: with the former names of its types: %w", err)
	}
	return q, nil
}

// checkTypes says whether the criterion has all names of each of its types.
func (c *Codec) checkTypes(cr *consistency.Criterion) (complete bool, err error) {
	complete = true
	for _, name := range cr.Types {
		k := c.byName[name]
		if k == nil {
			if name == MarkerType {
				continue
			}
			return false, c.typeError(name)
		}
		for _, other := range k.names {
			complete = complete && (other == name || slices.Contains(cr.Types, other))
		}
	}
	return complete, nil
}

// keyIndex answers which versions of which types have a key as a string. Every
// version of every type has a slot, one bit in each set.
type keyIndex struct {
	has     map[string][]uint64 // by key
	open    []uint64            // types that have every key
	upcasts bool                // some type has older versions
}

func (x *keyIndex) build(kinds []*kind) {
	slots := 0
	for _, k := range kinds {
		k.first = slots
		slots += len(k.versions)
		x.upcasts = x.upcasts || len(k.versions) > 1
	}
	x.has = map[string][]uint64{}
	x.open = make([]uint64, (slots+63)/64)
	each := func(visit func(keys keySet, slot int)) {
		for _, k := range kinds {
			for i, v := range k.versions {
				visit(v.keys, k.first+i)
			}
		}
	}
	each(func(keys keySet, slot int) {
		if keys.open {
			x.open[slot/64] |= 1 << (slot % 64)
		}
	})
	each(func(keys keySet, slot int) {
		for key := range keys.fields {
			if !keys.has(key) {
				continue
			}
			if x.has[key] == nil {
				x.has[key] = slices.Clone(x.open)
			}
			x.has[key][slot/64] |= 1 << (slot % 64)
		}
	})
}

func (x *keyIndex) set(key string) []uint64 {
	if set, ok := x.has[key]; ok {
		return set
	}
	return x.open
}

// meets says whether events of the slot can have all of these keys.
func (x *keyIndex) meets(tags []consistency.Tag, slot int) bool {
	for _, t := range tags {
		if t.Key != consistency.CommandKey && x.set(t.Key)[slot/64]>>(slot%64)&1 == 0 {
			return false
		}
	}
	return true
}

func onlyCommand(tags []consistency.Tag) bool {
	for _, t := range tags {
		if t.Key != consistency.CommandKey {
			return false
		}
	}
	return true
}

// meetsAny says whether some version of some type can have all keys of the
// criterion.
func (c *Codec) meetsAny(cr *consistency.Criterion) bool {
	if onlyCommand(cr.Tags) {
		return true
	}
	if len(cr.Types) > 0 {
		for _, name := range cr.Types {
			if k := c.byName[name]; k != nil && k.meetsAny(&c.keys, cr.Tags) {
				return true
			}
		}
		return false
	}
	for w := range c.keys.open {
		all := ^uint64(0)
		for _, t := range cr.Tags {
			if t.Key != consistency.CommandKey {
				all &= c.keys.set(t.Key)[w]
			}
		}
		if all != 0 {
			return true
		}
	}
	return false
}

func (k *kind) meetsAny(x *keyIndex, tags []consistency.Tag) bool {
	for i := range k.versions {
		if x.meets(tags, k.first+i) {
			return true
		}
	}
	return false
}

// checkVersions refuses a criterion that meets some versions of a type and
// misses others, which nothing else in the query meets either.
func (c *Codec) checkVersions(criteria []consistency.Criterion, at int) error {
	if !c.keys.upcasts {
		return nil
	}
	cr := &criteria[at]
	current := false // does it meet any type as it is written now?
	for _, k := range c.kinds {
		current = current || k.named(cr.Types) && c.keys.meets(cr.Tags, k.last())
	}
	for _, k := range c.kinds {
		if len(k.versions) < 2 || !k.named(cr.Types) {
			continue
		}
		if err := k.checkVersions(&c.keys, criteria, at, current); err != nil {
			return err
		}
	}
	return nil
}

func (k *kind) checkVersions(x *keyIndex, criteria []consistency.Criterion, at int, current bool) error {
	tags := criteria[at].Tags
	if !x.meets(tags, k.last()) {
		// Types that have given up a key may be left out, unless no type has it
		// any more: no event of now on would be met.
		if !current && k.meetsAny(x, tags) && !k.met(x, criteria, k.last()) {
			return k.versionError(tags, k.last())
		}
		return nil
	}
	for slot := k.first; slot < k.last(); slot++ {
		if !k.met(x, criteria, slot) {
			return k.versionError(tags, slot)
		}
	}
	return nil
}

// last is the slot of the current version.
func (k *kind) last() int { return k.first + len(k.versions) - 1 }

// met says whether some criterion meets events of k's slot.
func (k *kind) met(x *keyIndex, criteria []consistency.Criterion, slot int) bool {
	for i := range criteria {
		if k.named(criteria[i].Types) && x.meets(criteria[i].Tags, slot) {
			return true
		}
	}
	return false
}

// named says whether a criterion with these types meets events of k.
func (k *kind) named(types []string) bool {
	if len(types) == 0 {
		return true
	}
	for _, name := range k.names {
		if slices.Contains(types, name) {
			return true
		}
	}
	return false
}
