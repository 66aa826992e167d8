package eventstore

import (
	"strings"
	"unicode/utf8"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/google/uuid"
)

// Limits of an append, the same on every store.
const (
	MaxEventBytes   = 1 << 20 // of one event's data, and of its custom metadata
	MaxEvents       = 1000    // in an append
	MaxObservations = 64      // in an append
)

// CheckAppend is what every store does before anything else: it refuses what
// does not fit, with [ErrInvalid], and returns what is to be indexed of each
// record: its top-level strings.
func CheckAppend(records []event.Record, seen []consistency.Observation) ([][]consistency.Tag, error) {
	if len(records) == 0 {
		return nil, invalid("an append needs at least one event")
	}
	if len(records) > MaxEvents {
		return nil, invalid("%d events in one append, the limit is %d: split the command", len(records), MaxEvents)
	}
	if len(seen) > MaxObservations {
		return nil, invalid("%d observations in one append, the limit is %d: join fewer contexts, or use one query with OR", len(seen), MaxObservations)
	}
	for _, o := range seen {
		if err := o.Query.Validate(); err != nil {
			return nil, invalid("observation: %w", err)
		}
	}
	tags := make([][]consistency.Tag, len(records))
	for i, r := range records {
		var err error
		if tags[i], err = checkRecord(r); err != nil {
			return nil, invalid("event %d (%s, type %.80q): %w", i, r.ID, r.Type, err)
		}
	}
	if i := firstTwice(records); i >= 0 {
		return nil, invalid("event %d: event_id %s stands twice in one append", i, records[i].ID)
	}
	return tags, nil
}

// firstTwice returns the first record whose event_id stood before, or -1. The
// usual few are compared without a map.
func firstTwice(records []event.Record) int {
	var seen map[uuid.UUID]bool
	if len(records) > 16 {
		seen = make(map[uuid.UUID]bool, len(records))
	}
	for i := range records {
		id := records[i].ID
		if seen != nil {
			if seen[id] {
				return i
			}
			seen[id] = true
			continue
		}
		for j := range i {
			if records[j].ID == id {
				return i
			}
		}
	}
	return -1
}

func checkRecord(r event.Record) ([]consistency.Tag, error) {
	if r.ID == uuid.Nil {
		return nil, errNoID
	}
	if err := consistency.CheckType(r.Type); err != nil {
		return nil, err
	}
	if len(r.Data) > MaxEventBytes {
		return nil, tooLarge("data", len(r.Data))
	}
	tags, err := consistency.Tags(r.Data)
	if err != nil {
		return nil, err
	}
	return tags, checkMetadata(r.Metadata)
}

func checkMetadata(m event.Metadata) error {
	size := 0
	check := func(texts ...string) error {
		for _, t := range texts {
			size += len(t)
			if !utf8.ValidString(t) || strings.IndexByte(t, 0) >= 0 {
				return badMetadata(t)
			}
		}
		return nil
	}
	if err := check(m.Command, m.Fingerprint, m.Correlation, m.Causation); err != nil {
		return err
	}
	for k, v := range m.Custom {
		if event.ReservedMetadata(k) {
			return reservedKey(k)
		}
		if err := check(k, v); err != nil {
			return err
		}
	}
	if size > MaxEventBytes {
		return tooLarge("metadata", size)
	}
	return nil
}

// CheckParts is what every store does before a read.
func CheckParts(parts ...Part) error {
	for _, p := range parts {
		if err := p.Query.Validate(); err != nil {
			return invalid("read: %w", err)
		}
	}
	return nil
}
