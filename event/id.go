package event

import (
	"crypto/sha1"
	"strconv"

	"github.com/google/uuid"
)

// DerivedID is the event_id of a command's i-th event, the same on every
// attempt: the first event (i = 0) has the command's own ID, each other one the
// UUIDv5 of the text of i, with the command's ID as the namespace.
func DerivedID(command uuid.UUID, i int) uuid.UUID {
	if i == 0 {
		return command
	}
	var buf [16 + 20]byte
	b := strconv.AppendInt(append(buf[:0], command[:]...), int64(i), 10)
	sum := sha1.Sum(b) // uuid.NewSHA1 without its allocations
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 5<<4
	id[8] = id[8]&0x3f | 0x80
	return id
}
