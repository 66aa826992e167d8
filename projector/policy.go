package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cccgo/ccc/event"
	"github.com/cenkalti/backoff/v4"
)

// Policy says what becomes of an event that cannot be applied: it is tried
// Attempts times with growing pauses, in which nothing else is applied, and Then
// tells what follows.
type Policy struct {
	// Attempts is how often an event is tried. Zero means 10, about half a
	// minute with the default delays. An event that cannot be decoded, or whose
	// type is unknown, is tried once.
	Attempts int
	// Then is what is done after the last try. Zero means Halt.
	Then Action
	// MaxParked bounds how many events wait in the park, so that an outage does
	// not put a whole log there: with so many, or more, the projector halts where
	// it would park another one that cannot be applied. Those that have to wait
	// behind one that is parked come on top. Zero means 10,000.
	MaxParked int
	// Judge, if it is set, decides by the error of the last try; what is zero
	// in its answer is as above. It must answer the same each time.
	Judge func(error) Rule

	// FirstDelay and MaxDelay bound the pause between tries, which doubles with
	// jitter; also the pause after an error of the store or the target, which
	// are tried for ever. Zero means 100 ms and 10 s.
	FirstDelay, MaxDelay time.Duration
	// HaltRetry is the time between tries of an event that the projector has
	// halted at. Zero means 30 s.
	HaltRetry time.Duration
}

// Rule is what a [Policy] says of one error.
type Rule struct {
	Attempts int
	Then     Action
}

// Action is what is done with an event that could not be applied.
type Action string

const (
	// Halt: the projector stays where it is, keeps its name, and tries the event
	// slowly until it can be applied or somebody says [Projector.Resume].
	Halt Action = "halt"
	// Park: the event is put aside, and so is each later one that has a key in
	// common with one that is; others go on. It needs [Config.Keys]; an event
	// without a key halts. See [Projector.Retry] and [Projector.Discard].
	Park Action = "park"
	// Skip: the event is passed over, counted in [Lag.Skipped], and reported.
	Skip Action = "skip"
)

// ErrHold in an error of a handler says that the event must neither be parked
// nor be skipped, whatever the [Policy] is, after later tries either: nobody
// knows yet whether its effect is there. Where it would be, the projector halts.
var ErrHold = errors.New("the event has to be tried until it is known to be applied")

// rule is what the policy says of an error.
func (p Policy) rule(err error) Rule {
	r := Rule{p.Attempts, p.Then}
	if hopeless(err) {
		r.Attempts = 1
	}
	if p.Judge != nil {
		judged := p.Judge(err)
		r.Attempts = cmp.Or(max(judged.Attempts, 0), r.Attempts)
		r.Then = cmp.Or(judged.Then, r.Then)
	}
	if r.Then != Park && r.Then != Skip {
		r.Then = Halt
	}
	return r
}

// maxReason bounds the text that is kept of an error, in bytes.
const maxReason = 8 << 10

// hold waits until an event that failed may be tried again. No transaction is
// open meanwhile.
func (w *worker[Tx]) hold(ctx context.Context, from progress) (progress, error) {
	switch {
	case from.verdict != "":
	case from.failure.Discard != "": // before this worker came
		from.verdict = Skip
	case from.retry:
	case w.replay.impatient(from.failure):
		return from, &HaltedError{w.name, from.failure}
	case w.replay != nil: // what is due in the park is live's to do
		return from, sleep(ctx, delayAfter(w.cfg, from.failure.Attempts))
	default:
		limit := delayAfter(w.cfg, from.failure.Attempts)
		if from.failure.Halted {
			limit = w.cfg.Failures.HaltRetry
		}
		now, err := w.standStill(ctx, from.at, limit)
		if from.failure.Discard = now.Discard; now.Discard != "" {
			from.verdict = Skip
		}
		return from, err
	}
	return from, nil
}

// fail keeps that an event could not be applied, outside the transaction that
// was rolled back, so that the count outlives the process. It returns an error
// only where this worker has to end.
func (w *worker[Tx]) fail(ctx context.Context, from progress, r event.Record, reason error) (progress, error) {
	f := from.failure
	if !f.stands([]event.Record{r}) {
		f = Failure{Position: r.Position, EventID: r.ID, Type: r.Type, First: now()}
	}
	f.Attempts++
	f.Last = now()
	f.Error = text(reason)
	f.Hold = f.Hold || errors.Is(reason, ErrHold) || w.holds[r.ID]
	from.verdict = ""
	if rule := w.rule(reason); f.Attempts >= rule.Attempts {
		if from.verdict = rule.Then; from.verdict == Park && !w.parkable(ctx, r) || from.verdict == Halt || f.Hold {
			from.verdict, f.Halted = "", true
		}
	}
	from.failure, from.retry = f, false

	err := w.target.Fail(ctx, w.claim, f)
	if errors.Is(err, ErrTakenOver) {
		return from, err // and so is the event's failure: the new owner's to judge
	}
	if err == nil { // somebody may have said meanwhile what is to be done
		var state State
		if state, err = w.target.State(ctx, w.name); err == nil && state.Failure.Discard != "" {
			from.failure.Discard, from.verdict = state.Failure.Discard, Skip
		}
	}
	attrs := []any{"position", f.Position, "event_id", f.EventID, "type", f.Type, "attempts", f.Attempts}
	switch {
	case from.verdict == Park:
		w.reports.error("parked: an event cannot be applied; those with other keys go on", reason, attrs...)
	case from.verdict == Skip:
		w.reports.error("skipped: an event cannot be applied", reason, attrs...)
	case f.Halted:
		w.reports.error("halted: an event cannot be applied", reason, attrs...)
	default:
		w.reports.warn("an event cannot be applied, trying again", reason, attrs...)
	}
	// Where it is not kept, a restart counts anew; the event stays where it is.
	return from, w.trouble(ctx, "the target does not keep what stands in the way", err)
}

// rule is the policy's, also where its Judge panics.
func (w *worker[Tx]) rule(reason error) (r Rule) {
	defer func() {
		if v := recover(); v != nil {
			w.reports.error("Policy.Judge panicked", &PanicError{v, debug.Stack()})
			r = Rule{Then: Halt}
		}
	}()
	return w.cfg.Failures.rule(reason)
}

// parkable says whether an event has a key to be parked under, and a place.
func (w *worker[Tx]) parkable(ctx context.Context, r event.Record) bool {
	keys, err := w.keys(r)
	if err == nil && len(keys) == 0 {
		err = fmt.Errorf("event %s of type %q at %s has no key", r.ID, r.Type, r.Position)
	}
	if state, _ := w.target.State(ctx, w.name); err == nil && state.Parked >= w.cfg.Failures.MaxParked {
		err = fmt.Errorf("%d events are parked already, and Policy.MaxParked is %d", state.Parked, w.cfg.Failures.MaxParked)
	}
	if err != nil {
		w.reports.error("an event is to be parked and cannot be: the projector halts", err)
	}
	return err == nil
}

// now is the time as targets keep it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

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
		backoff.WithInitialInterval(c.Failures.FirstDelay), backoff.WithMaxInterval(max(c.Failures.FirstDelay, c.Failures.MaxDelay)),
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
