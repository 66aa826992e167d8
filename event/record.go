package event

import (
	"encoding/json"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// Event is a fact of a domain: a plain value that a codec knows. EventType is
// the name it is stored under, the same for every value of the Go type; it is
// a storage format and stays when the Go type is renamed.
type Event interface{ EventType() string }

// Record is an event as it is stored.
type Record struct {
	// ID is the event_id: of a command's first event the command's own ID, of
	// the following ones derived from it ([DerivedID]).
	ID uuid.UUID
	// Type is the name the event is stored under.
	Type string
	// Data is a JSON object. Stores may give it back with other spaces and
	// another order of keys; values are kept. It must not be changed.
	Data json.RawMessage
	// Metadata is what is known about the event beside its content.
	Metadata Metadata
	// Position is set by the store, and ignored in an append.
	Position consistency.Position
	// Time is when the event was decided, by the writer's clock: UTC, in whole
	// microseconds. It orders nothing. A store sets it where it is zero.
	Time time.Time
}
