package command

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// keySpace is the UUIDv5 namespace of [KeyID]. It is part of the stored
// format and never changes.
var keySpace = uuid.MustParse("8f0c1f2e-5f0b-5a64-9a6e-0d2a0c7f4c11")

// NewID returns a fresh command ID. Keep it across repeats: a repeat with
// another ID is another command.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// KeyID returns the command ID for a caller's idempotency key: the same for
// the same scope and key, for ever. The scope is who gives out the keys, such
// as a service or a tenant; not a route, so that a key used on another route
// is noticed. Any text is a key but the empty one, which is [ErrNoID].
func KeyID(scope, key string) (uuid.UUID, error) {
	if key == "" {
		return uuid.Nil, fmt.Errorf("command: the idempotency key in scope %q is empty: %w", scope, ErrNoID)
	}
	// The scope's length in front keeps ("a", "bc") and ("ab", "c") apart.
	name := binary.BigEndian.AppendUint64(nil, uint64(len(scope)))
	name = append(append(name, scope...), key...)
	return uuid.NewSHA1(keySpace, name), nil
}
