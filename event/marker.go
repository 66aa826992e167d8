package event

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MarkerType is the name that markers are stored under.
const MarkerType = reservedPrefix + "CommandRecorded"

// Marker records under a command's ID that it was refused, or that there was
// nothing to do. Every codec encodes and decodes it; folds and handlers do not
// see it. The refusal is nested in its data, so it matches nobody's context.
type Marker struct {
	// Refusal is a domain event that the command's Decide returned as its
	// error, of a type in the codec. Nil: there was nothing to do.
	Refusal Event
}

// EventType returns [MarkerType].
func (Marker) EventType() string { return MarkerType }

type markerData struct {
	Refusal *refusalData `json:"refusal,omitempty"`
}

type refusalData struct {
	Type    string          `json:"type"`
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

func (c *Codec) encodeMarker(m Marker) ([]byte, error) {
	var out markerData
	if m.Refusal != nil {
		if _, ok := m.Refusal.(Marker); ok {
			return nil, fmt.Errorf("%w: a marker is no refusal", ErrUnencodable)
		}
		data, version, err := c.encode(m.Refusal)
		if err != nil {
			return nil, fmt.Errorf("refusal: %w", err)
		}
		out.Refusal = &refusalData{m.Refusal.EventType(), version, data}
	}
	return json.Marshal(out)
}

func (c *Codec) decodeMarker(version int, data []byte) (Event, error) {
	if err := checkStored(data, version, 1); err != nil {
		return nil, err
	}
	var in markerData
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	switch r := in.Refusal; {
	case r == nil:
		return Marker{}, nil
	case r.Type == MarkerType:
		return nil, errors.New("a marker is no refusal")
	default:
		refusal, err := c.decode(r.Type, r.Version, r.Data)
		if err != nil {
			return nil, fmt.Errorf("refusal of type %q, version %d: %w", r.Type, max(r.Version, 1), err)
		}
		return Marker{Refusal: refusal}, nil
	}
}
