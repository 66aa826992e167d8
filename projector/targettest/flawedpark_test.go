package targettest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/projector"
)

func (f *flawed) compare(a, b consistency.Position) int {
	aMajor, aMinor := a.Parts()
	bMajor, bMinor := b.Parts()
	switch f.flaw {
	case "positions as texts":
		return strings.Compare(fmt.Sprint(a.Parts()), fmt.Sprint(b.Parts()))
	case "positions as signed numbers":
		return cmp.Or(cmp.Compare(aMajor, bMajor), cmp.Compare(int64(aMinor), int64(bMinor)))
	case "one number of two":
		return cmp.Compare(aMinor, bMinor)
	}
	return a.Compare(b)
}

// waiting is the place in the row of the event that waits at a position, or -1.
func (f *flawed) waiting(r *row, at consistency.Position) int {
	return slices.IndexFunc(r.parked, func(p projector.Parked) bool {
		return p.Record.Position == at && (p.Settled.IsZero() || f.has("settles twice"))
	})
}

func (f *flawed) parks(p projector.Parked, key string) bool {
	switch {
	case !p.Settled.IsZero() && !f.has("settled ones still park"):
		return false
	case f.has("keys match by their beginning"):
		return slices.ContainsFunc(p.Keys, func(k string) bool { return strings.HasPrefix(k, key) })
	case f.has("keys match in any case"):
		return slices.ContainsFunc(p.Keys, func(k string) bool { return strings.EqualFold(k, key) })
	case f.has("only the first key counts"):
		return p.Keys[0] == key
	}
	return slices.Contains(p.Keys, key)
}

// mine is the row as this batch sees what is parked.
func (x *flawedTx) mine() *row {
	x.target.mu.Lock()
	defer x.target.mu.Unlock()
	if x.target.has("does not see what it parked") {
		return x.row.copy()
	}
	if x.target.has("one park for all") {
		all := &row{}
		for _, r := range x.space.names {
			all.parked = append(all.parked, r.parked...)
		}
		return all
	}
	return x.view()
}

func (x *flawedTx) IsParked(keys []string) (bool, error) {
	if x.target.has("asks for the first key only") && len(keys) > 0 {
		keys = keys[:1]
	}
	for _, p := range x.mine().parked {
		for _, key := range keys {
			if x.target.parks(p, key) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (x *flawedTx) ParkedAt(at consistency.Position) (projector.Parked, bool, error) {
	r := x.mine()
	i := x.target.waiting(r, at)
	if i < 0 || x.target.has("finds nothing at a position") {
		return projector.Parked{}, false, nil
	}
	return r.parked[i], true, nil
}

func (x *flawedTx) FirstParked(key string) (first projector.Parked, found bool, err error) {
	for _, p := range x.mine().parked {
		if x.target.parks(p, key) && (!found || x.target.compare(p.Record.Position, first.Record.Position) < 0 && !x.target.has("first in, first out")) {
			first, found = p, true
		}
	}
	return first, found, nil
}

func (x *flawedTx) Park(p projector.Parked) error {
	f := x.target
	switch f.flaw {
	case "drops the metadata of a parked event":
		p.Record.Metadata = event.Metadata{}
	case "parks in whole seconds":
		p.First = p.First.Truncate(time.Second)
	case "drops Replay":
		p.Replay = false
	}
	op := func(r *row) {
		i := f.waiting(r, p.Record.Position)
		switch {
		case i < 0 || f.has("an exchange adds one"):
			r.parked = append(r.parked, p)
		case f.has("an exchange keeps the old one"):
		case f.has("an exchange keeps the old keys"):
			keys := r.parked[i].Keys
			r.parked[i] = p
			r.parked[i].Keys = keys
		default:
			r.parked[i] = p
		}
	}
	if f.has("parks at once") {
		x.now(op)
	}
	x.do(op)
	return nil
}

func (x *flawedTx) Settle(at consistency.Position, as projector.Outcome, reason string) error {
	f := x.target
	if f.waiting(x.mine(), at) < 0 {
		if f.has("settles what is not parked") {
			return nil
		}
		return projector.ErrNotParked
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	op := func(r *row) {
		i := f.waiting(r, at)
		if i < 0 {
			return
		}
		p := &r.parked[i]
		p.Settled, p.Outcome, p.Reason = now, as, reason
		switch f.flaw {
		case "settled ones are gone":
			r.parked = slices.Delete(r.parked, i, i+1)
		case "settles in no time":
			p.Settled = time.Unix(0, 0).UTC()
		case "keeps no reason":
			p.Reason = ""
		case "settles for good only":
			p.Outcome = projector.Applied
		case "settled ones lose their error":
			p.Error = ""
		}
	}
	if f.has("settles at once") {
		x.now(op)
	}
	x.do(op)
	return nil
}

func (f *flawed) Parked(ctx context.Context, n projector.Name, q projector.ParkedQuery) ([]projector.Parked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil && !f.has("lists when it cannot") {
		return nil, err
	}
	switch f.flaw {
	case "a query without a key":
		q.Key = ""
	case "a query without After":
		q.After = consistency.Position{}
	case "a query without UpTo":
		q.UpTo = consistency.Position{}
	case "a query without DueBy":
		q.DueBy = time.Time{}
	case "a query without Settled":
		q.Settled = false
	case "a query without Limit":
		q.Limit = 0
	case "no limit":
		q.Limit = 1 << 30
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	var list []projector.Parked
	for _, p := range f.row(n).parked {
		at := p.Record.Position
		switch {
		case q.Settled == p.Settled.IsZero(), q.Key != "" && !slices.Contains(p.Keys, q.Key),
			!q.UpTo.IsZero() && (f.compare(at, q.UpTo) > 0 || f.has("UpTo leaves out") && at == q.UpTo),
			f.compare(at, q.After) <= 0 && (!f.has("After takes in") || at != q.After),
			!q.DueBy.IsZero() && (p.Due.After(q.DueBy) || p.Due.IsZero() && !f.has("no Due is due") || f.has("DueBy leaves out") && p.Due == q.DueBy):
			continue
		}
		list = append(list, p)
	}
	if !f.has("lists as parked") {
		slices.SortFunc(list, func(a, b projector.Parked) int { return f.compare(a.Record.Position, b.Record.Position) })
	}
	return list[:min(q.Limit, len(list))], nil
}

func (f *flawed) Ask(ctx context.Context, n projector.Name, at consistency.Position, discard string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil && !f.has("asks when it cannot") {
		return err
	}
	r := f.row(n)
	if f.has("asks for owners only") && !r.Held {
		return projector.ErrTakenOver
	}
	if f.has("asks only for a failure") && at.IsZero() && r.Failure == (projector.Failure{}) {
		return projector.ErrNotParked
	}
	if i := f.waiting(r, at); i >= 0 {
		p := &r.parked[i]
		if !f.has("asks for nothing soon") {
			p.Due = time.Unix(0, 0).UTC()
		}
		if !f.has("drops the word") && (discard != "" || !f.has("no second thoughts")) {
			p.Discard = discard
		}
	} else if at == r.Failure.Position && discard != "" && !f.has("asks for no failure") {
		r.Failure.Discard = discard
	} else if !at.IsZero() && !f.has("asks for what is not parked") {
		return projector.ErrNotParked
	}
	if !f.has("asked does not grow") {
		r.Asked++
	}
	f.wake()
	return nil
}
