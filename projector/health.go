package projector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/google/uuid"
)

// Condition is how a projector is.
type Condition string

const (
	// Current: everything in the log is applied, and a worker waits for more.
	Current Condition = "current"
	// CatchingUp: a worker is on its way to the end of the log.
	CatchingUp Condition = "catching up"
	// Retrying: an event could not be applied and is tried again.
	Retrying Condition = "retrying"
	// ParkedEvents: events are parked, all others are applied or on their way.
	ParkedEvents Condition = "parked events"
	// Halted: an event cannot be applied, and nothing after it is.
	Halted Condition = "halted"
	// Stalled: a worker holds the name and there is work, but for
	// [Config.StallAfter] the checkpoint has not moved.
	Stalled Condition = "stalled"
	// NoWorker: nobody holds the name.
	NoWorker Condition = "no worker"
)

// Health is how a projector is, as it is seen from outside.
type Health struct {
	Condition Condition
	Lag       Lag
	// Blocking is what stands in the way. The zero Blocking: nothing.
	Blocking Blocking
}

// Blocking is the event that a projector does not get past: the one that could
// not be applied, the first parked one, or the one after the checkpoint where it
// is stalled. Where it is no event, only Why is set.
type Blocking struct {
	Position consistency.Position
	EventID  uuid.UUID
	Type     string
	Why      string
}

// Healthy is what a handler of /healthz answers with: it is true for Current,
// CatchingUp, Retrying and ParkedEvents, where all goes on that can, and false
// for Halted, Stalled, NoWorker and the zero Health. Parked events need somebody
// too: have an alarm on [Lag.Parked].
func (h Health) Healthy() bool {
	switch h.Condition {
	case Current, CatchingUp, Retrying, ParkedEvents:
		return true
	}
	return false
}

// Health tells how the projector is. It looks at the log and the target, as any
// replica can, and asks no worker: one that hangs or is gone says nothing. How
// long something has lasted is seen by three clocks, the target's, the writers'
// and this process's, so Stalled is as exact as they agree. An error means that
// the store or the target does not answer, or [ErrForeignLog]: that is not
// healthy.
func (p *Projector[Tx]) Health(ctx context.Context) (Health, error) {
	if p.misuse != nil {
		return Health{}, p.misuse
	}
	lag, next, err := p.measure(ctx)
	var h Health
	if err == nil {
		h, err = p.judge(ctx, lag, next)
	}
	if err != nil && !errors.Is(err, ErrForeignLog) { // that one names the projector itself
		err = fmt.Errorf("projector %s: health: %w", p.name, err)
	}
	return h, err
}

func (p *Projector[Tx]) judge(ctx context.Context, lag Lag, next event.Record) (Health, error) {
	h := Health{Condition: CatchingUp, Lag: lag}
	f := lag.Failure
	failed := !f.Position.IsZero()
	switch {
	case !lag.Held:
		h.Condition, h.Blocking.Why = NoWorker, "no worker holds the name: call Run"
	case f.Halted:
		h.Condition = Halted
	case !lag.CaughtUp() && p.stalled(lag):
		h.Condition = Stalled
	case failed:
		h.Condition = Retrying
	case lag.Parked > 0:
		h.Condition = ParkedEvents
	case lag.CaughtUp():
		h.Condition = Current
	}
	switch {
	case h.Condition == Stalled:
		why := fmt.Sprintf("a worker holds the name and has not moved the checkpoint since %s: the handler has not returned, or the target or the log does not answer it", lag.Moved.Format(time.RFC3339))
		h.Blocking = Blocking{next.Position, next.ID, next.Type, why}
	case failed:
		h.Blocking = Blocking{f.Position, f.EventID, f.Type, fmt.Sprintf("could not be applied in %d attempts: %s", f.Attempts, firstLine(f.Error))}
	case h.Condition == ParkedEvents:
		parked, err := p.target.Parked(ctx, p.name, ParkedQuery{Limit: 1})
		if err != nil {
			return Health{}, err
		}
		if len(parked) > 0 { // it may be settled meanwhile
			e := parked[0]
			h.Blocking = Blocking{e.Record.Position, e.Record.ID, e.Record.Type, fmt.Sprintf("parked after %d attempts: %s", e.Attempts, firstLine(e.Error))}
		}
	}
	return h, nil
}

// stalled says whether nothing has happened for too long. Where an event failed
// a while ago, its next try may be due later than that.
func (p *Projector[Tx]) stalled(l Lag) bool {
	limit, sign := p.cfg.StallAfter, l.Moved
	if !l.Failure.Position.IsZero() {
		limit += 2 * p.cfg.Failures.MaxDelay
		if l.Failure.Last.After(sign) {
			sign = l.Failure.Last
		}
	}
	return l.Age > p.cfg.StallAfter && time.Since(sign) > limit
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
