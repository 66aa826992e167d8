package commandtest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/command/commandtest"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/stretchr/testify/require"
)

type placed struct {
	Order  string `json:"order"`
	Amount int64  `json:"amount,string"`
	Secret int    `json:"-"`
}

type full struct{ Limit int64 }

func (placed) EventType() string { return "Placed" }
func (full) EventType() string   { return "Full" }
func (f full) Error() string     { return fmt.Sprintf("limit is %d", f.Limit) }

type total struct {
	Sum  int64
	Seen map[string]int64
}

var chance int64

func fold(t total, e event.Event) total {
	if p, ok := e.(placed); ok {
		t.Sum += p.Amount
		if p.Order == "chance" {
			chance++
			t.Sum += chance
		}
		if t.Seen == nil {
			t.Seen = map[string]int64{}
		}
		t.Seen[p.Order] += p.Amount
	}
	return t
}

var (
	codec  = event.NewCodec(event.Of[placed](), event.Of[full]())
	totals = command.NewModel(codec, fold)
)

type place struct {
	Order  string
	Amount int64
	Mode   string
}

func (place) CommandName() string { return "place" }
func (c place) Context() command.View[total] {
	return totals.History(consistency.Where("order", c.Order))
}
func (c place) Decide(t total) ([]event.Event, error) {
	switch c.Mode {
	case "chance":
		chance++
		return []event.Event{placed{c.Order, chance, 0}}, nil
	case "scribble":
		t.Seen["x"] = 1
	case "secret":
		return []event.Event{placed{c.Order, 1, 7}}, nil
	case "both":
		return []event.Event{placed{}}, full{}
	case "none":
		return nil, nil
	}
	if t.Sum+c.Amount > 100 {
		return nil, full{100}
	}
	return []event.Event{placed{c.Order, c.Amount, 0}}, nil
}

// fake notes what a failing test says.
type fake struct {
	testing.TB
	said []string
}

func (f *fake) Helper() {}
func (f *fake) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}
func (f *fake) Fatalf(format string, args ...any) { f.Errorf(format, args...); runtime.Goexit() }

func TestPasses(t *testing.T) {
	given := commandtest.Given(t, placed{"a", 60, 0}, placed{"b", 90, 0})
	commandtest.When(given, place{Order: "a", Amount: 40}).Then(placed{"a", 40, 0}).
		ThenState(total{100, map[string]int64{"a": 100}})
	commandtest.When(given, place{Order: "a", Amount: 41}).ThenRefused(full{100})
	commandtest.When(given, place{Order: "a", Mode: "none"}).ThenNothing()
}

func TestReports(t *testing.T) {
	for name, c := range map[string]struct {
		given []event.Event
		run   func(commandtest.Facts)
		says  string
	}{
		"other events":  {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Amount: 1}).Then(placed{"a", 2, 0}) }, "want"},
		"more events":   {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Amount: 1}).Then() }, "want"},
		"not refused":   {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Amount: 1}).ThenRefused(full{100}) }, "want the refusal"},
		"other refusal": {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Amount: 101}).ThenRefused(full{1}) }, "want the refusal"},
		"refused": {nil, func(f commandtest.Facts) {
			commandtest.When(f, place{Order: "a", Amount: 101}).Then(placed{"a", 101, 0})
		}, "limit is 100"},
		"something":     {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Amount: 1}).ThenNothing() }, "nothing to do"},
		"other state":   {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Amount: 1}).ThenState(total{}) }, "want"},
		"impure decide": {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Mode: "chance"}) }, "Decide is not pure"},
		"impure evolve": {[]event.Event{placed{"chance", 1, 0}}, func(f commandtest.Facts) { commandtest.When(f, place{Order: "chance", Amount: 1}) }, "Evolve is not pure"},
		"scribbles":     {[]event.Event{placed{"a", 1, 0}}, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Mode: "scribble"}) }, "changes the state"},
		"lost by codec": {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Mode: "secret"}) }, "after the codec"},
		"misuse":        {nil, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a", Mode: "both"}).Then() }, "one of both"},
		"unknown fact":  {[]event.Event{event.Event(stranger{})}, func(f commandtest.Facts) { commandtest.When(f, place{Order: "a"}) }, "given events"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{TB: t}
			c.run(commandtest.Given(f, c.given...))
			require.NotEmpty(t, f.said)
			require.Contains(t, strings.Join(f.said, "\n"), c.says)
		})
	}
}

type stranger struct{}

func (stranger) EventType() string { return "Stranger" }
