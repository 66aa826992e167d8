package projector

import (
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// Parked is an event that was put aside because it cannot be applied, or
// because an earlier event with one of its keys was; so events with other keys
// go on. A target keeps it whole.
type Parked struct {
	Record event.Record
	Keys   []string // in the order of their bytes, none twice, at least one

	Failed   bool      // it could not be applied; else it waits behind another one
	Attempts int       // so far, those before it was parked included
	First    time.Time // try; UTC, in whole microseconds, as all times here; zero: none
	Last     time.Time // try
	Error    string    // of the last try
	Hold     bool      // a try ended with ErrHold
	Since    time.Time // when it was parked

	// Due is when it is to be tried again, or to be discarded. Zero: when
	// somebody asks for it, or when the one that it waits for is settled.
	Due     time.Time
	Discard string // the reason, once somebody asked for it
	Replay  bool   // it came from a rebuild: see Delivery.Replay

	Settled time.Time // zero: it waits
	Outcome Outcome   // once it is settled
	Reason  string    // of the outcome, if it was discarded
}

// Outcome is how a parked event's wait ended.
type Outcome string

const (
	Applied   Outcome = "applied"
	Discarded Outcome = "discarded"
)

// ParkedQuery chooses parked events. The zero query means the first 100 that
// wait.
type ParkedQuery struct {
	Key     string               // only those with the key; empty: any
	After   consistency.Position // only those after it
	UpTo    consistency.Position // only those up to it; zero: all
	DueBy   time.Time            // only those with a Due that is not after it; zero: all
	Settled bool                 // those that are settled, in place of those that wait
	Limit   int                  // zero: 100
}
