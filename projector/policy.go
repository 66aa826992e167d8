package projector

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cenkalti/backoff/v4"
)

// maxReason bounds the text that is kept of an error, in bytes.
const maxReason = 8 << 10

// hold waits until an event that failed may be tried again. No transaction is
// open meanwhile.
func (w *worker[Tx]) hold(ctx context.Context, from progress) error {
	switch {
	case from.retry:
		return nil
	case from.failure.Halted:
		return sleep(ctx, w.cfg.HaltRetry)
	}
	return sleep(ctx, delayAfter(w.cfg, from.failure.Attempts))
}

// fail keeps that an event could not be applied, outside the transaction that
// was rolled back, so that the count outlives the process. It returns an error
// only where this worker has to end.
func (w *worker[Tx]) fail(ctx context.Context, before Failure, r event.Record, reason error) (Failure, error) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	f := before
	if !f.stands([]event.Record{r}) {
		f = Failure{Position: r.Position, EventID: r.ID, Type: r.Type, First: now}
	}
	f.Attempts++
	f.Last = now
	f.Error = text(reason)
	f.Halted = f.Halted || f.Attempts >= w.cfg.Attempts || hopeless(reason)

	err := w.target.Fail(ctx, w.claim, f)
	if errors.Is(err, ErrTakenOver) {
		return f, err // and so is the event's failure: the new owner's to judge
	}
	attrs := []any{"position", f.Position, "event_id", f.EventID, "type", f.Type, "attempts", f.Attempts}
	if f.Halted {
		w.reports.error("halted: an event cannot be applied", reason, attrs...)
	} else {
		w.reports.warn("an event cannot be applied, trying again", reason, attrs...)
	}
	// Where it is not kept, a restart counts anew; the event stays where it is.
	return f, w.trouble(ctx, "the target does not keep what stands in the way", err)
}

// hopeless says whether the same program fails at the event each time.
func hopeless(err error) bool {
	return errors.Is(err, event.ErrUnknownType) || errors.Is(err, event.ErrUndecodable)
}

// text is an error as every target can keep it.
func text(err error) string {
	s := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + "…"
	}
	return s
}

// delays are the pauses between tries of something that may pass.
type delays struct{ *backoff.ExponentialBackOff }

func newDelays(c Config) *delays {
	return &delays{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(c.FirstDelay), backoff.WithMaxInterval(max(c.FirstDelay, c.MaxDelay)),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))}
}

func (d *delays) next() time.Duration { return d.NextBackOff() }
func (d *delays) reset()              { d.Reset() }

// delayAfter is the pause after so many tries, some of them perhaps before a
// restart.
func delayAfter(c Config, tries int) (delay time.Duration) {
	d := newDelays(c)
	for range min(max(tries, 1), 64) {
		delay = d.next()
	}
	return delay
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
