package targettest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
)

func pos(n uint64) consistency.Position { return consistency.NewPosition(0, n) }

// aParked is an event that is parked, with something in each field that is kept
// while it waits, but Due and Discard.
func aParked(at consistency.Position, keys ...string) projector.Parked {
	first := time.Date(2026, 3, 29, 1, 59, 59, 999_999_000, time.UTC)
	slices.Sort(keys)
	return projector.Parked{
		Record: event.Record{
			ID: id("parked " + at.String()), Type: "Type'\"%", Position: at, Time: first.Add(-time.Minute),
			Data: json.RawMessage(`{"text":"line\n'\"% ä","big":9007199254740993,"at":"` + at.String() + `"}`),
			Metadata: event.Metadata{
				Command: "Command", Fingerprint: "f1", Events: 2, Version: 3, Correlation: "c1", Causation: "c2", Depth: 4,
				Custom: map[string]string{"user": "ä'\"%", "": "empty"},
			},
		},
		Keys: keys, Failed: true, Attempts: 7, First: first, Last: first.Add(time.Hour), Error: "line\n'\"% ä", Since: first.Add(2 * time.Hour), Hold: true,
	}
}

// asKept is what has to come back: JSON may be written in another way.
func asKept(p projector.Parked) projector.Parked {
	d := json.NewDecoder(bytes.NewReader(p.Record.Data))
	d.UseNumber()
	var data any
	if d.Decode(&data) == nil {
		p.Record.Data, _ = json.Marshal(data)
	}
	if len(p.Record.Metadata.Custom) == 0 {
		p.Record.Metadata.Custom = nil
	}
	return p
}

func (c *env[Tx]) same(got, want projector.Parked, when string) {
	if got, want = asKept(got), asKept(want); !reflect.DeepEqual(got, want) {
		c.failf("%s: the parked event comes back as\n%+v, it was\n%+v", when, got, want)
	}
}

// stay applies work and leaves the checkpoint where it is.
func (c *env[Tx]) stay(t projector.Target[Tx], claim projector.Claim, work func(projector.Batch[Tx]) error) {
	from := c.state(t, claim.Name).Checkpoint
	c.apply(t, claim, from, func(b projector.Batch[Tx]) (projector.Checkpoint, error) { return from, work(b) })
}

func (c *env[Tx]) park(t projector.Target[Tx], claim projector.Claim, ps ...projector.Parked) {
	c.stay(t, claim, func(b projector.Batch[Tx]) error {
		for _, p := range ps {
			if err := b.Park(p); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *env[Tx]) settle(t projector.Target[Tx], claim projector.Claim, at consistency.Position, as projector.Outcome, reason string) {
	c.stay(t, claim, func(b projector.Batch[Tx]) error { return b.Settle(at, as, reason) })
}

func (c *env[Tx]) list(t projector.Target[Tx], n projector.Name, q projector.ParkedQuery) []projector.Parked {
	list, err := t.Parked(c.ctx, n, q)
	c.ok(err, "list what is parked")
	return list
}

// listed checks which events a query finds.
func (c *env[Tx]) listed(t projector.Target[Tx], n projector.Name, q projector.ParkedQuery, when string, want ...consistency.Position) []projector.Parked {
	list := c.list(t, n, q)
	var got []consistency.Position
	for _, p := range list {
		got = append(got, p.Record.Position)
	}
	if !slices.Equal(got, want) {
		c.failf("%s: the query %+v finds what is parked at %v, want %v", when, q, got, want)
	}
	return list
}

// isParked checks IsParked and FirstParked of one key; the zero position: not
// parked.
func isParked[Tx any](b projector.Batch[Tx], key string, want consistency.Position, when string) error {
	is, err := b.IsParked([]string{key})
	if err != nil {
		return err
	}
	if is == want.IsZero() {
		return fmt.Errorf("%s: IsParked of key %q is %v", when, key, is)
	}
	p, found, err := b.FirstParked(key)
	if err != nil {
		return err
	}
	if found == want.IsZero() || p.Record.Position != want {
		return fmt.Errorf("%s: the first that is parked for key %q is at %s (found: %v), want %s", when, key, p.Record.Position, found, want)
	}
	return nil
}

// keyIs is isParked in a batch of its own.
func (c *env[Tx]) keyIs(t projector.Target[Tx], claim projector.Claim, key string, want consistency.Position, when string) {
	c.stay(t, claim, func(b projector.Batch[Tx]) error { return isParked(b, key, want, when) })
}
