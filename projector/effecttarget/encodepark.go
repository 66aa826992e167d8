package effecttarget

import (
	"encoding/json"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// writtenParked keeps an event's data as bytes: it need not be JSON at all.
type writtenParked struct {
	Position consistency.Position `json:"position"`
	ID       uuid.UUID            `json:"id,omitzero"`
	Type     string               `json:"type"`
	Data     []byte               `json:"data"`
	Metadata event.Metadata       `json:"metadata,omitzero"`
	Time     time.Time            `json:"time,omitzero"`
	Keys     []string             `json:"keys"`

	Failed   bool              `json:"failed,omitzero"`
	Attempts int               `json:"attempts,omitzero"`
	First    time.Time         `json:"first,omitzero"`
	Last     time.Time         `json:"last,omitzero"`
	Error    string            `json:"error,omitzero"`
	Since    time.Time         `json:"since,omitzero"`
	Hold     bool              `json:"hold,omitzero"`
	Due      time.Time         `json:"due,omitzero"`
	Discard  string            `json:"discard,omitzero"`
	Replay   bool              `json:"replay,omitzero"`
	Settled  time.Time         `json:"settled,omitzero"`
	Outcome  projector.Outcome `json:"outcome,omitzero"`
	Reason   string            `json:"reason,omitzero"`
}

func (p *park) encode() (err error) {
	if p.waitingText == nil {
		list := make([]writtenParked, 0, len(p.waiting))
		for _, e := range p.waiting {
			list = append(list, writeParked(e))
		}
		if p.waitingText, err = json.Marshal(list); err != nil {
			return err
		}
	}
	if p.settledText == nil {
		list := make([]writtenParked, 0, len(p.settled))
		for _, e := range p.settled {
			list = append(list, writeParked(e))
		}
		p.settledText, err = json.Marshal(list)
	}
	return err
}

func writeParked(p projector.Parked) writtenParked {
	return writtenParked{
		Position: p.Record.Position, ID: p.Record.ID, Type: p.Record.Type, Data: p.Record.Data, Metadata: p.Record.Metadata,
		Time: p.Record.Time, Keys: p.Keys, Failed: p.Failed, Attempts: p.Attempts, First: p.First, Last: p.Last, Error: p.Error,
		Since: p.Since, Hold: p.Hold, Due: p.Due, Discard: p.Discard, Replay: p.Replay, Settled: p.Settled, Outcome: p.Outcome, Reason: p.Reason,
	}
}

func (w writtenParked) parked() projector.Parked {
	return projector.Parked{
		Record: event.Record{ID: w.ID, Type: w.Type, Data: w.Data, Metadata: w.Metadata, Position: w.Position, Time: w.Time},
		Keys:   w.Keys, Failed: w.Failed, Attempts: w.Attempts, First: w.First, Last: w.Last, Error: w.Error,
		Since: w.Since, Hold: w.Hold, Due: w.Due, Discard: w.Discard, Replay: w.Replay, Settled: w.Settled, Outcome: w.Outcome, Reason: w.Reason,
	}
}
