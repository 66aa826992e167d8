package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
)

// MaxLagEvents is how far [Projector.Lag] counts.
const MaxLagEvents = 10_000

// Lag is how far a read model is behind its log.
type Lag struct {
	Checkpoint consistency.Position
	Head       consistency.Position // of the log's last event, of any type
	HeadTime   time.Time            // of that event; zero for an empty log
	Moved      time.Time            // when the checkpoint moved last, by the target's clock; zero: never

	// Events is how many events up to Head, of those that the projector gets,
	// lie after the checkpoint, at most [MaxLagEvents]: More says that there are
	// others. (Lanes may have applied some of them already.)
	Events int
	More   bool
	// Age is how long ago the first of those was written, by its writer's clock;
	// where there are only events that the projector does not get, the first of
	// them. Zero when all is applied, and never negative.
	Age time.Duration

	Held    bool    // a worker is active
	Failure Failure // what stands in the way; zero: nothing
	Parked  int     // events that wait
	Skipped int64   // events, since the model was begun; see [Skip]
}

// CaughtUp says whether everything in the log is applied or parked.
func (l Lag) CaughtUp() bool { return !l.Head.After(l.Checkpoint) }

// Lag compares the checkpoint with the end of the log, on any replica. It is
// cheap when everything is applied; else it reads what is to be counted. A model
// of another log is [ErrForeignLog].
func (p *Projector[Tx]) Lag(ctx context.Context) (Lag, error) {
	if p.misuse != nil {
		return Lag{}, p.misuse
	}
	lag, _, err := p.measure(ctx)
	if err != nil && !errors.Is(err, ErrForeignLog) { // that one names the projector itself
		err = fmt.Errorf("projector %s: lag: %w", p.name, err)
	}
	return lag, err
}

// measure returns the lag, and the event that Age is about.
func (p *Projector[Tx]) measure(ctx context.Context) (lag Lag, next event.Record, err error) {
	// The head is read first: a worker that goes on meanwhile cannot make the
	// lag look larger than it was.
	results, err := p.store.Snapshot(ctx, eventstore.Part{Query: consistency.All(), LatestOnly: true})
	if err != nil {
		return Lag{}, next, err
	}
	state, err := p.target.State(ctx, p.name)
	if err != nil {
		return Lag{}, next, err
	}
	var head event.Record
	if records := results[0].Records; len(records) > 0 {
		head = records[len(records)-1]
	}
	// A model that is ahead of its log, as far as can be seen, is not caught up.
	at := state.Checkpoint
	if at.Position.After(head.Position) || at.Position == head.Position && at.EventID != head.ID || at.Log != p.log.Log && at.Log != uuid.Nil && p.log.Log != uuid.Nil {
		if err := p.compare(ctx, at); err != nil {
			return Lag{}, next, err
		}
	}
	lag = Lag{
		Checkpoint: at.Position, Head: head.Position, HeadTime: head.Time, Moved: state.Moved,
		Held: state.Held, Parked: state.Parked, Skipped: state.Skipped,
	}
	if state.Failure.Position.After(at.Position) {
		lag.Failure = state.Failure
	}
	if lag.CaughtUp() {
		return lag, next, nil
	}
	if next, err = p.count(ctx, &lag); err != nil {
		return Lag{}, next, err
	}
	if !next.Time.IsZero() {
		lag.Age = max(time.Since(next.Time), 0)
	}
	return lag, next, nil
}

// count sets how many events there are, and returns the first one: of those
// that the projector gets, or else of all.
func (p *Projector[Tx]) count(ctx context.Context, lag *Lag) (first event.Record, err error) {
	for at := lag.Checkpoint; lag.Head.After(at); {
		page, err := p.store.Page(ctx, p.query, at, 1000)
		if err != nil {
			return first, err
		}
		for _, r := range page.Records {
			if r.Position.After(lag.Head) {
				break // written meanwhile
			}
			if lag.Events == MaxLagEvents {
				lag.More = true
				return first, nil
			}
			if lag.Events++; lag.Events == 1 {
				first = r
			}
		}
		if !page.UpTo.After(at) { // the page lags behind the head
			lag.More = true
			break
		}
		at = page.UpTo
	}
	if lag.Events > 0 {
		return first, nil
	}
	page, err := p.store.Page(ctx, consistency.All(), lag.Checkpoint, 1)
	if err != nil || len(page.Records) == 0 {
		return first, err
	}
	return page.Records[0], nil
}
