package projector

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cccgo/ccc/event"
)

// KeyFunc gives the keys of an event as it stands in the log: it need not be
// one that can be decoded. It must give the same keys each time. One without
// keys is in order with nothing but others without, and cannot be parked.
type KeyFunc func(event.Record) []string

// DataKeys takes keys from the event's data: for each of the names that is a
// top-level key there, with a text or a number, [DataKey] of both. An event may
// have several of them, and several keys.
func DataKeys(names ...string) KeyFunc {
	return func(r event.Record) (keys []string) {
		var data map[string]json.RawMessage
		if json.Unmarshal(r.Data, &data) != nil {
			return nil
		}
		for _, name := range names {
			switch raw := bytes.TrimSpace(data[name]); {
			case len(raw) == 0:
			case raw[0] == '"':
				var text string
				if json.Unmarshal(raw, &text) == nil {
					keys = append(keys, DataKey(name, text))
				}
			case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
				keys = append(keys, DataKey(name, string(raw)))
			}
		}
		return keys
	}
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
	keys = slices.Clone(p.cfg.Keys(r))
	for i, k := range keys {
		keys[i] = keyText(k)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// keyText puts a hash in the place of what not every target can keep.
func keyText(k string) string {
	if len(k) <= maxKey && utf8.ValidString(k) && !strings.ContainsRune(k, 0) {
		return k
	}
	sum := sha256.Sum256([]byte(k))
	return "sha256:" + hex.EncodeToString(sum[:])
}
