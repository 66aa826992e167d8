package storefault

import (
	"math/rand/v2"
	"time"
)

// Config says how often what goes wrong. The zero value changes nothing. A
// chance lies between 0 (never) and 1 (always). At most one fault of its list
// happens to a call, so the chances of a list should add up to 1 at most.
type Config struct {
	// Seed is what all chance follows from. The same calls in the same order
	// meet the same faults.
	Seed uint64

	// Of appends; what each means stands at the [Fault] of the same name.
	LoseAnswer  float64
	LoseRequest float64
	LandLate    float64 // see LateBy
	Double      float64
	Echo        float64 // see LateBy
	Hang        float64
	Refuse      float64
	Spurious    float64 // an error without a kind; the append was saved or was not

	// LateBy is how much later a late append lands, at most. Zero means that it
	// lands before one of the next four calls, without a clock.
	LateBy time.Duration

	// Of snapshots.
	ReadError float64 // of pages too
	// StaleReads are snapshots as of an earlier moment. They BREAK THE PORT:
	// only for tests of what must hold nevertheless.
	StaleReads float64

	// Of pages: complete up to an earlier event than the log's last.
	LagPages float64

	// Of waits: the hint is lost, Wait ends only with its context.
	LoseHints float64

	// Delay is the chance that an append, a snapshot or a page takes up to
	// DelayBy, on its way there or back. A context that ends meanwhile makes
	// the call an error, an append Ambiguous.
	Delay float64
	// DelayBy is the longest delay. Zero means 10 ms.
	DelayBy time.Duration

	// Logf is told each fault, such as testing.T.Logf. Nil: nobody is.
	Logf func(format string, args ...any)
}

// Rough is a Config with every fault that the port allows, each with this
// chance (at most 1/8). Hang is left out: it needs callers that bound each
// call.
func Rough(seed uint64, chance float64) Config {
	return Config{Seed: seed, LoseAnswer: chance, LoseRequest: chance, LandLate: chance, Double: chance, Echo: chance,
		Refuse: chance, Spurious: chance, ReadError: chance, LagPages: chance, Delay: chance}
}

// draw is all the chance that a call meets. It follows from the seed and the
// call's number among those of its operation, not from what was drawn before.
func (c *Config) draw(op Op, n int) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, uint64(n)<<8|uint64(op[0])))
}

// oneOf picks at most one fault by the chances of its list.
func oneOf(rng *rand.Rand, list ...chance) Fault {
	at := rng.Float64()
	for _, c := range list {
		if at < c.of {
			return c.fault
		}
		at -= c.of
	}
	return Pass
}

type chance struct {
	of    float64
	fault Fault
}

// late picks when a late append lands. It counts under one name.
func (c *Config) late(rng *rand.Rand) Fault {
	late := LandBefore(1 + rng.IntN(4))
	if c.LateBy > 0 {
		late = LandIn(1 + time.Duration(rng.Int64N(int64(c.LateBy))))
	}
	late.name = LandLate.name
	return late
}

func (c *Config) onAppend(rng *rand.Rand) Fault {
	late, echo, spurious := c.late(rng), Echo, Fail(errSpurious)
	echo.calls, echo.after = late.calls, late.after
	if rng.IntN(2) == 0 {
		spurious = FailAfter(errSpurious)
	}
	spurious.name = "spurious"
	return oneOf(rng, chance{c.LoseAnswer, LoseAnswer}, chance{c.LoseRequest, LoseRequest}, chance{c.LandLate, late},
		chance{c.Double, Double}, chance{c.Echo, echo}, chance{c.Hang, Hang}, chance{c.Refuse, Refuse}, chance{c.Spurious, spurious})
}

// delay is how long a call takes on its way there and back.
type delay struct{ there, back time.Duration }

func (c *Config) delay(rng *rand.Rand) (d delay) {
	if rng.Float64() >= c.Delay {
		return delay{}
	}
	longest := c.DelayBy
	if longest == 0 {
		longest = 10 * time.Millisecond
	}
	by := 1 + time.Duration(rng.Int64N(int64(longest)))
	if rng.IntN(2) == 0 {
		return delay{there: by}
	}
	return delay{back: by}
}
