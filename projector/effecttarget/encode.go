package effecttarget

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// format is raised with every change of what is written, also for a new field: a
// program that does not know it would lose it with its next save.
const format = 1

// The text is one JSON object. Marks and parked events are written apart from
// the rest, see encode.
type (
	written struct {
		Format     int             `json:"format"`
		Projector  string          `json:"projector"`
		Boundary   string          `json:"boundary"`
		Epoch      int64           `json:"epoch"`
		Held       bool            `json:"held"`
		Until      time.Time       `json:"until,omitzero"`
		Checkpoint writtenPoint    `json:"checkpoint,omitzero"`
		Moved      time.Time       `json:"moved,omitzero"`
		Failure    *writtenFailure `json:"failure,omitempty"`
		Applied    int64           `json:"applied,omitzero"`
		Skipped    int64           `json:"skipped,omitzero"`
		Asked      int64           `json:"asked,omitzero"`
	}
	writtenPoint struct {
		Position consistency.Position `json:"position"`
		EventID  uuid.UUID            `json:"eventId,omitzero"`
		Log      uuid.UUID            `json:"log,omitzero"`
	}
	writtenFailure struct {
		Position consistency.Position `json:"position"`
		EventID  uuid.UUID            `json:"eventId,omitzero"`
		Type     string               `json:"type,omitzero"`
		Attempts int                  `json:"attempts,omitzero"`
		First    time.Time            `json:"first,omitzero"`
		Last     time.Time            `json:"last,omitzero"`
		Error    string               `json:"error,omitzero"`
		Halted   bool                 `json:"halted,omitzero"`
		Hold     bool                 `json:"hold,omitzero"`
		Discard  string               `json:"discard,omitzero"`
	}
	whole struct {
		written
		Marks   marks           `json:"marks"`
		Waiting []writtenParked `json:"waiting"`
		Settled []writtenParked `json:"settled"`
	}
)

// encode writes the document. The marks are written by hand: they are there by
// the hundred, in each save.
func (d *document) encode() ([]byte, error) {
	head := written{
		Format: format, Projector: d.name.Projector, Boundary: d.name.Boundary, Epoch: d.epoch, Held: d.held, Until: d.until,
		Checkpoint: writtenPoint(d.checkpoint), Moved: d.moved, Applied: d.applied, Skipped: d.skipped, Asked: d.asked,
	}
	if d.failure != (projector.Failure{}) {
		f := writtenFailure(d.failure)
		head.Failure = &f
	}
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	if err := d.park.encode(); err != nil {
		return nil, err
	}
	out := append(text[:len(text)-1], `,"marks":`...)
	out = append(d.marks.append(out), `,"waiting":`...)
	out = append(append(out, d.park.waitingText...), `,"settled":`...)
	return append(append(out, d.park.settledText...), '}'), nil
}

func (m marks) append(out []byte) []byte {
	out = slices.Grow(append(out, '{'), 64*len(m))
	separator := `"`
	for id, at := range m {
		out = append(out, separator...)
		out = hex.AppendEncode(out, id[:])
		out = append(append(append(out, `":"`...), at.String()...), '"')
		separator = `,"`
	}
	return append(out, '}')
}

// decode reads what encode wrote; nothing at all is a name that was never used.
func decode(name projector.Name, text []byte) (*document, error) {
	d := newDocument(name)
	if len(text) == 0 {
		return d, nil
	}
	var w whole
	var version struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if version.Format > format {
		return nil, fmt.Errorf("%w: it has format %d, this one knows %d", ErrNewer, version.Format, format)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if is := (projector.Name{Projector: w.Projector, Boundary: w.Boundary}); is != name || w.Format < 1 || w.Epoch < 0 {
		return nil, fmt.Errorf("%w: it is format %d, of %q", ErrCorrupt, w.Format, is)
	}
	d.epoch, d.held, d.until = w.Epoch, w.Held, w.Until
	d.checkpoint, d.moved = projector.Checkpoint(w.Checkpoint), w.Moved
	d.applied, d.skipped, d.asked = w.Applied, w.Skipped, w.Asked
	if w.Failure != nil {
		d.failure = projector.Failure(*w.Failure)
	}
	if w.Marks != nil {
		d.marks = w.Marks
	}
	for _, p := range w.Waiting {
		d.park.put(p.parked())
	}
	for _, p := range w.Settled {
		d.park.settled = append(d.park.settled, p.parked())
	}
	return d, nil
}
