package projector

import (
	"context"
	"errors"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// Target is where a projector keeps its effect and how far it has come. Tx is
// what a handler writes with. A target serves any number of projectors, each
// under its [Name], and any number of processes; all methods may be called by
// several goroutines at once. No method but Wait and Apply takes longer than the
// target's own work. Several projectors of one name on one Target value are
// replicas, as those of several processes are. Package targettest holds a case
// for each promise.
type Target[Tx any] interface {
	// Claim takes a name that is free: never held, released, its owner dead as
	// far as the target can see, or its lease run out by the target's own
	// clock. The claim's epoch is above every earlier one of the name; from
	// then on Apply refuses older ones. A name that is not free: [ErrHeld].
	// The target keeps the lease alive by itself (one heartbeat for all claims
	// of a process) until Release.
	Claim(ctx context.Context, name Name) (Claim, error)

	// Release gives a claim back, so that a standby takes over at once, and
	// keeps everything else. A claim that was taken over or released before is
	// no error, and a newer claim is not touched by it.
	Release(ctx context.Context, claim Claim) error

	// State reads what is committed for a name, also while another process
	// holds it or writes. The zero State for a name that was never used.
	State(ctx context.Context, name Name) (State, error)

	// Apply runs work in one transaction, where the target has them, that holds
	// the claim's epoch: once at most, and on the caller's goroutine. It fails
	// with [ErrTakenOver], and does nothing, if a newer claim exists, if this
	// one was released, or if the checkpoint is not from. (A lease that ran out
	// with no newer claim changes nothing: the epoch protects, not the lease.)
	//
	// The checkpoint that work returns becomes durable together with what work
	// wrote and marked; one that lies before from is refused. A checkpoint at
	// or after the failure's position removes the failure in the same step.
	// Work's error is returned as it is, or wrapped, and it or a panic of work
	// leaves nothing behind. After any other error it is open whether the
	// transaction was committed, or will be: read State.
	//
	// Applies of one claim run one after the other: work begins only when it is
	// settled what became of an earlier one, also if its answer was lost. Where
	// the target itself rolls back because of another transaction (a deadlock),
	// the error is [ErrCollided], whatever work returned: it is run again.
	//
	// A target without transactions says so in its documentation: there the
	// effect comes first, and the checkpoint afterwards, forward only.
	Apply(ctx context.Context, claim Claim, from Checkpoint, work func(Batch[Tx]) (Checkpoint, error)) error

	// Fail keeps, in a transaction of its own, what stands in the way at the
	// checkpoint; the zero Failure removes it. A Discard that is kept for the
	// same position stays. [ErrTakenOver] if a newer claim exists or this one was
	// released.
	Fail(ctx context.Context, claim Claim, failure Failure) error

	// Wait returns nil when the state or the claim of the name may have changed
	// since seen was read, so at once where it has changed already (a release
	// too); or else after a short time of the target's choosing; ctx's error
	// when ctx ends first. It is cheap to call in a loop.
	Wait(ctx context.Context, name Name, seen State) error

	// Parked lists committed parked events of a name, by position, with what
	// the query asks for. No claim is needed.
	Parked(ctx context.Context, name Name, q ParkedQuery) ([]Parked, error)

	// Ask keeps an operator's word for whoever works under the name, and makes
	// [State.Asked] grow. No claim is needed. At the zero position it is about
	// what stands in the way now: try it at once. At another one it is about the
	// parked event that waits there: it is Due at once (in the year 1970), to be
	// discarded for the reason, or, without a reason, to be tried again. At the
	// position of the Failure, with a reason, it is about that: the reason becomes
	// its Discard. [ErrNotParked] if neither is there.
	Ask(ctx context.Context, name Name, at consistency.Position, discard string) error

	// Promise says what the target's kind promises.
	Promise() Promise
}

// Promise is how often an event's effect is there.
type Promise string

const (
	// ExactlyOnce: effect, marks and checkpoint are one transaction.
	ExactlyOnce Promise = "exactly once"
	// Converges: a repeated effect changes nothing, nor does one that comes too
	// late: each value carries its position and only moves forward. Events are
	// not marked.
	Converges Promise = "converges"
	// AtLeastOnce: the effect of an event may be repeated after a crash, the
	// one (one per lane) whose mark was not kept yet. Each event is marked.
	AtLeastOnce Promise = "at least once"
)

// LaneTarget is a Target that applies events of one claim side by side, for
// [Config.Lanes].
type LaneTarget[Tx any] interface {
	Target[Tx]
	// Lane is Apply for events out of order: it runs work in a transaction that
	// holds the claim's epoch, side by side with others of the same claim, and
	// neither compares nor moves the checkpoint; the claim's Apply may run
	// meanwhile too. Work marks what it does. Where two transactions cannot both
	// be committed, because one changed what the other has read or written, or
	// because both marked the same event, one of them fails with [ErrCollided];
	// it is run again at once. That error also takes the place of work's own, if
	// what work had read may have been out of date. A call in work sees what was
	// committed before it.
	Lane(ctx context.Context, claim Claim, work func(Batch[Tx]) error) error
}

// Batch is one transaction of a target, for one goroutine. What it writes is
// seen by its own later calls.
type Batch[Tx any] interface {
	// Tx is what the handler writes with. It ends with the batch.
	Tx() Tx
	// Seen says whether an event_id was marked as done under this name.
	Seen(id uuid.UUID) (bool, error)
	// Done marks it, with the position where it stands. A mark that is there
	// already is no matter.
	Done(id uuid.UUID, at consistency.Position) error
	// Forget drops the marks at a position or before it.
	Forget(upTo consistency.Position) error

	// IsParked says whether an event with one of the keys is parked and waits.
	// It is cheap: it is called for each event while any is parked.
	IsParked(keys []string) (bool, error)
	// ParkedAt is the event that is parked at a position and waits.
	ParkedAt(at consistency.Position) (p Parked, found bool, err error)
	// FirstParked is the waiting event of a key with the lowest position.
	FirstParked(key string) (p Parked, found bool, err error)
	// Park puts an event aside, or exchanges all that is kept of the one that
	// waits at its position.
	Park(p Parked) error
	// Settle ends the wait of the event that is parked at a position. It is
	// kept, with the time, as Applied or, for a reason, Discarded. Its keys are
	// not parked by it any more. [ErrNotParked] if none waits there.
	Settle(at consistency.Position, as Outcome, reason string) error

	// Count adds to the events that the name has applied and skipped. It comes
	// before the event's mark, and so does Park: where the target keeps marks one
	// by one, that is kept together.
	Count(applied, skipped int)
}

// Name is what a projector's state is kept under: one per read model and
// boundary that it reads.
type Name struct{ Projector, Boundary string }

func (n Name) String() string { return n.Projector + "/" + n.Boundary }

// Claim is the right to work under a name, until a newer one exists.
type Claim struct {
	Name  Name
	Epoch int64 // grows with each claim of the name, from 1
}

// Checkpoint is the last position a projector is done with, everything before
// it included. The zero Checkpoint lies before the first event.
type Checkpoint struct {
	Position consistency.Position
	EventID  uuid.UUID // of the event at Position, to tell a foreign log
	Log      uuid.UUID // eventstore.Features.Log of the log; zero: not known
}

// State is what a target knows of a name.
type State struct {
	Checkpoint Checkpoint
	Failure    Failure // zero: nothing stands in the way
	Epoch      int64   // of the latest claim; it never goes back
	Held       bool    // a live owner holds it, as far as the target can see

	Moved   time.Time // when the checkpoint moved last, by the target's clock, in whole microseconds; zero: never
	Applied int64     // events, by Batch.Count
	Skipped int64     // events, by Batch.Count
	Marked  bool      // there are marks, see Batch.Done
	Parked  int       // events that wait
	Due     time.Time // the earliest one of those, or zero
	Asked   int64     // how many times Ask was called with success
}

// Failure is the event that a projector could not apply.
type Failure struct {
	Position consistency.Position
	EventID  uuid.UUID
	Type     string
	Attempts int       // so far, restarts included
	First    time.Time // UTC, in whole microseconds
	Last     time.Time // the same
	Error    string
	Halted   bool   // no further try but the slow one
	Hold     bool   // a try ended with ErrHold
	Discard  string // the reason, once somebody asked for it
}

// What targets return, inside errors that name the projector.
var (
	ErrHeld      = errors.New("another worker holds the name")
	ErrTakenOver = errors.New("another worker took over")
	// ErrCollided: a lane's transaction left nothing behind because of another one.
	ErrCollided = errors.New("another transaction got in the way")
	// ErrNotParked: no parked event waits at the position that was named.
	ErrNotParked = errors.New("no parked event waits there")
	// ErrClosed is the error of every call to a target that was closed.
	ErrClosed = errors.New("target is closed")
)
