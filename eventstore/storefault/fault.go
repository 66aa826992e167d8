package storefault

import (
	"errors"
	"fmt"
	"time"

	"github.com/cccgo/ccc/eventstore"
)

// Fault is what happens to one call. Those that are about sending are for
// appends; reads take [Pass], [Fail], and [Stale] or [Lag].
type Fault struct {
	name  string
	sends int           // how many copies of an append are sent at once
	late  bool          // a copy is on its way still
	calls int           // it lands before that call from now; 0: when Settle says so
	after time.Duration // it lands then; 0: it does not go by time
	err   error         // what the caller hears instead of an answer
	hang  bool
	back  int // how many events a read is behind
}

func (f Fault) String() string { return f.name }

var (
	errSpurious = errors.New("storefault: something went wrong")
	errRead     = errors.New("storefault: the read failed")
	errNoAnswer = fmt.Errorf("storefault: %w: the answer was lost", eventstore.Ambiguous)
	errRefused  = fmt.Errorf("storefault: %w: the request was refused", eventstore.NotApplied)
)

// The faults of an append. What lands is checked as any append is: a late copy
// whose observations do not hold by then is not saved.
var (
	// Pass is no fault.
	Pass = Fault{name: "pass", sends: 1}
	// LoseAnswer: it is saved (or refused), the caller hears Ambiguous.
	LoseAnswer = Fault{name: "lose answer", sends: 1, err: errNoAnswer}
	// LoseRequest: it is never saved, the caller hears Ambiguous.
	LoseRequest = Fault{name: "lose request", err: errNoAnswer}
	// LandLate: the caller hears Ambiguous, it is saved when Settle is called.
	// See LandBefore and LandIn.
	LandLate = Fault{name: "land late", late: true, err: errNoAnswer}
	// Double: a transport sends it twice, one right after the other, and the
	// caller hears what happened to the second where that is a Conflict: the
	// first was saved, and the second's observations do not hold any more.
	Double = Fault{name: "double", sends: 2}
	// Echo: it is saved and answered, and a second copy lands when Settle is
	// called.
	Echo = Fault{name: "echo", sends: 1, late: true}
	// Hang: it is saved, and no answer comes before the context ends.
	Hang = Fault{name: "hang", sends: 1, hang: true}
	// Refuse: it is never saved, the caller hears NotApplied.
	Refuse = Fault{name: "refuse", err: errRefused}
)

// LandBefore is LandLate that lands right before the n-th call from now, 1
// being the next one. Waits do not count as calls.
func LandBefore(n int) Fault {
	f := LandLate
	f.name, f.calls = fmt.Sprintf("land before call %d from now", n), max(1, n)
	return f
}

// LandIn is LandLate that lands after that time.
func LandIn(d time.Duration) Fault {
	f := LandLate
	f.name, f.after = fmt.Sprintf("land in %s", d), max(1, d)
	return f
}

// Fail does not send an append, and fails a read: the caller hears err. The
// error should say what is true: without a kind it is Ambiguous.
func Fail(err error) Fault { return Fault{name: "fail", err: err} }

// FailAfter is Fail for an append that was sent.
func FailAfter(err error) Fault { return Fault{name: "fail after", sends: 1, err: err} }

// Names of the faults of reads.
const stale, lag = "stale", "lag"

// Stale makes a snapshot show the log as it was n events ago. It BREAKS THE
// PORT.
func Stale(n int) Fault { return Fault{name: stale, sends: 1, back: n} }

// Lag makes a page end n matches early, at the event of the last one that is
// left, or where it began.
func Lag(n int) Fault { return Fault{name: lag, sends: 1, back: n} }

// Script says what happens to the next appends, one fault each; then chance
// decides again. Scripts that are not used up are added to.
func (s *Store) Script(faults ...Fault) { s.script(OpAppend, faults) }

// ScriptSnapshots is Script for the next snapshots.
func (s *Store) ScriptSnapshots(faults ...Fault) { s.script(OpSnapshot, faults) }

// ScriptPages is Script for the next pages.
func (s *Store) ScriptPages(faults ...Fault) { s.script(OpPage, faults) }

func (s *Store) script(op Op, faults []Fault) {
	for _, f := range faults {
		if !f.fits(op) {
			panic(fmt.Sprintf("storefault: %q cannot happen to a call of %s", f, op))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[op] = append(s.scripts[op], faults...)
}

func (f Fault) fits(op Op) bool {
	if op == OpAppend {
		return f.back == 0 && (f.sends > 0 || f.late || f.err != nil)
	}
	return !f.late && !f.hang && f.sends < 2 && (f.sends > 0 || f.err != nil) &&
		(f.name != stale || op == OpSnapshot) && (f.name != lag || op == OpPage)
}
