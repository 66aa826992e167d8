package reaction

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// space is the UUIDv5 namespace of [ID]. It is part of the stored format and
// never changes.
var space = uuid.MustParse("ac3afb17-78a7-4cf0-a90d-ec1edbf89968")

// ID is the ID of the command that an event leads to: the same for the same
// event and name, for ever. So the name is a storage format: under another one,
// the command is another command and happens again. It belongs to one reaction
// among all whose commands run in the same boundary, also where their events
// come from different logs: these may have an event_id in common.
func ID(event uuid.UUID, name string) uuid.UUID {
	data := make([]byte, 0, len(event)+8+len(name))
	data = append(data, event[:]...)
	data = binary.BigEndian.AppendUint64(data, uint64(len(name))) // so that more can follow it one day
	return uuid.NewSHA1(space, append(data, name...))
}
