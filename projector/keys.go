package projector

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// Keys says which events have to stay in order: those that have a key in common.
type Keys interface {
	// Of gives the keys of an event as it stands in the log: it need not be one
	// that can be decoded. It must give the same keys each time, and may be
	// called by several goroutines at once. An event without keys is in order
	// with nothing but others without, and cannot be parked.
	Of(event.Record) []string
}

// KeyFunc is a function as [Keys].
type KeyFunc func(event.Record) []string

// Of calls the function.
func (f KeyFunc) Of(r event.Record) []string { return f(r) }

// DataKeys takes keys from the event's data: for each of the names that is a
// top-level key there with a text, [DataKey] of both. An event may have several
// of them, and several keys.
func DataKeys(names ...string) Keys { return dataKeys(slices.Clone(names)) }

type dataKeys []string

func (names dataKeys) Of(r event.Record) (keys []string) {
	for _, name := range names {
		if value, ok := consistency.Value(r.Data, name); ok {
			keys = append(keys, name+"="+string(value)) // DataKey, without the text's copy
		}
	}
	return keys
}

// none says whether none of an event's keys is in a set, without making them:
// while anything is parked, most events are asked this and no more.
func (names dataKeys) none(r event.Record, set map[string]struct{}) bool {
	var text [maxKey]byte
	for _, name := range names {
		value, ok := consistency.Value(r.Data, name)
		if !ok {
			continue
		}
		if len(name)+1+len(value) > maxKey {
			return false // it is kept as a hash
		}
		key := append(append(append(text[:0], name...), '='), value...)
		if _, in := set[string(key)]; in {
			return false
		}
	}
	return true
}

// DataKey is the key that [DataKeys] makes of a name and its value.
func DataKey(name, value string) string { return name + "=" + value }

// idKey is a key that only copies of the event have.
func idKey(r event.Record) string { return "event_id " + r.ID.String() }

// maxKey bounds a key, in bytes, so that every target can index it.
const maxKey = 256

// keys are those of an event, as targets keep them.
func (p *Projector[Tx]) keys(r event.Record) (keys []string, err error) {
	if p.cfg.Keys == nil {
		return nil, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the keys of the event: %w", &PanicError{v, debug.Stack()})
		}
	}()
	given := p.cfg.Keys.Of(r)
	switch {
	case len(given) == 0:
		return nil, nil
	case len(given) == 1 && keyText(given[0]) == given[0]:
		return slices.Clip(given), nil // nothing to put right: spare the copy
	}
	keys = make([]string, len(given)) // given is the caller's
	for i, k := range given {
		keys[i] = keyText(k)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// keyText puts a hash in the place of what not every target can keep.
func keyText(k string) string {
	if len(k) <= maxKey && utf8.ValidString(k) && strings.IndexByte(k, 0) < 0 {
		return k
	}
	sum := sha256.Sum256([]byte(k))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// maxBehind bounds how many keys a worker keeps in mind.
const maxBehind = 10_000

// isFree says that none of an event's keys can be parked. It knows that only
// where the worker has seen all that are, and the keys are taken from the data;
// a key that is free again may be among them for a while.
func (w *worker[Tx]) isFree(r event.Record) bool {
	keys, ok := w.cfg.Keys.(dataKeys)
	return ok && w.behind != nil && keys.none(r, w.behind)
}

// remember keeps keys in mind that are parked, or about to be.
func (w *worker[Tx]) remember(keys []string) {
	w.parked = true
	if w.behind == nil {
		return
	}
	for _, key := range keys {
		w.behind[key] = struct{}{}
	}
	if len(w.behind) > maxBehind {
		w.behind = nil
	}
}
