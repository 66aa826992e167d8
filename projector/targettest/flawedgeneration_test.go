package targettest_test

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/google/uuid"
)

// generation is flawed with a generation that is being built.
type generation struct{ *flawed }

func (f *flawed) Names(ctx context.Context) (names []projector.Name, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil && !f.has("generations ignore contexts") {
		return nil, ctx.Err()
	}
	of := []*space{f.live}
	if f.has("names of both generations") && f.next != nil {
		of = append(of, f.next)
	}
	for _, s := range of {
		for n, r := range s.names {
			if f.state(r) != (projector.State{}) && !f.has("no names") || f.has("names that were looked at") {
				names = append(names, n)
			}
		}
	}
	return names, nil
}

func (f *flawed) Ahead(_ context.Context, name projector.Name, after consistency.Position) (ids []uuid.UUID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.live
	if f.has("ahead of the next generation") && f.next != nil {
		of = f.next
	}
	for id, at := range f.rowIn(of, name).done {
		if at.After(after) && !f.has("nothing is ahead") || f.has("all marks are ahead") {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (f *flawed) Next(ctx context.Context, tag string) (projector.Generation[*flawedTx], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil && !f.has("generations ignore contexts") {
		return nil, ctx.Err()
	}
	if f.next == nil || f.tag != tag && !f.has("any tag") || f.has("always a new one") {
		f.next, f.tag = newSpace(), tag
		switch f.flaw {
		case "begins with the live values":
			f.next.values = maps.Clone(f.live.values)
		case "begins with the live state":
			for n, r := range f.live.names {
				f.next.names[n] = r.copy()
			}
		case "begins as the live one":
			f.next = f.live
		}
	}
	return &generation{&flawed{flaw: f.flaw, book: f.book, fixed: f.next}}, nil
}

func (f *flawed) Drop(ctx context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil && !f.has("generations ignore contexts") {
		return 0, ctx.Err()
	}
	n := f.old
	f.old = 0
	switch f.flaw {
	case "drops nothing":
		return 0, nil
	case "drops what is being built":
		if f.next != nil {
			clear(f.next.values)
		}
	case "drops the live one":
		clear(f.live.values)
	}
	return n, nil
}

func (g *generation) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, r := range g.fixed.names {
		if r.Held && g.fixed != g.live {
			r.Held = false
		}
		if g.has("a closed generation begins its epochs anew") {
			r.Epoch = 0
		}
	}
	return nil
}

// hold waits as long as a switch holds the generation up. The mutex is held, but
// not in between.
func (f *flawed) hold(ctx context.Context, s *space) error {
	for s.held != nil {
		held := s.held
		f.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		f.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (g *generation) Switch(ctx context.Context, ready func(context.Context) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(ctx); err != nil && !g.has("generations ignore contexts") {
		return err
	}
	held := []*space{}
	switch g.flaw {
	case "a switch holds nobody":
	case "a switch holds the new one too":
		held = append(held, g.live, g.fixed)
	default:
		held = append(held, g.live)
	}
	for _, s := range held {
		s.held = make(chan struct{})
	}
	defer func() {
		for _, s := range held {
			close(s.held)
			s.held = nil
		}
	}()
	g.mu.Unlock()
	err := ready(ctx)
	g.mu.Lock()
	switch {
	case err != nil && g.has("a switch that is not ready ends the claims"):
		for _, r := range g.live.names {
			r.Held = false
		}
		return err
	case err != nil && g.has("a switch that is not ready drops the new one"):
		clear(g.fixed.values)
		return err
	case err != nil && g.has("hides why it is not ready"):
		return fmt.Errorf("not ready: %v", err)
	case err != nil && !g.has("switches although it is not ready"):
		return err
	}
	g.swap()
	if err == nil || !g.has("switches although it is not ready") {
		return nil
	}
	return err
}

func (g *generation) swap() {
	was, is := g.live, g.fixed
	for n, old := range was.names {
		r := g.rowIn(is, n)
		if !g.has("epochs go back in a switch") {
			r.Epoch = max(r.Epoch, old.Epoch)
		}
		if !g.has("words are lost in a switch") {
			r.Asked += old.Asked
		}
		switch g.flaw {
		case "a switch keeps the checkpoint":
			r.Checkpoint = old.Checkpoint
		case "a switch keeps the marks":
			r.done = old.done
		case "a switch keeps the parked":
			r.parked = old.parked
		case "a switch keeps the failure":
			r.Failure = old.Failure
		case "names of the old generation begin anew":
			if r.Checkpoint == (projector.Checkpoint{}) {
				delete(is.names, n)
			}
		case "live claims outlive a switch":
			r.Epoch, r.Held = old.Epoch, old.Held
		}
	}
	for _, r := range is.names {
		if r.Epoch > 0 && !g.has("live claims outlive a switch") && !g.has("new claims outlive a switch") {
			r.Epoch++
			r.Held = false
		}
	}
	for _, r := range was.names {
		if !g.has("waits for the old generation") {
			r.Epoch++
		}
		if r.running != nil {
			r.running.end()
		}
	}
	switch g.flaw {
	case "a switch keeps the values":
		is.values = was.values
	case "a switch is two steps":
		values := is.values
		is.values = was.values
		g.live = is
		g.mu.Unlock()
		<-time.After(10 * time.Millisecond)
		g.mu.Lock()
		is.values = values
	}
	g.live, g.old = is, g.old+1
	if !g.has("a switch leaves it to be built") {
		g.next = nil
	}
	g.wake()
}

func (g *generation) Compare(ctx context.Context) ([]projector.Difference, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ctx.Err() != nil && !g.has("generations ignore contexts") {
		return nil, ctx.Err()
	}
	d := projector.Difference{Table: "values"}
	for key, l := range g.live.values {
		if n, ok := g.fixed.values[key]; !ok && !g.has("compare misses what is missing") || ok && n != l && !g.has("compare looks at keys only") {
			d.Live++
			d.Examples = append(d.Examples, "live: "+key)
		}
	}
	for key := range g.fixed.values {
		if _, ok := g.live.values[key]; !ok && !g.has("compare misses what is too much") {
			d.Next++
			d.Examples = append(d.Examples, "next: "+key)
		}
	}
	if g.has("compare gives no examples") {
		d.Examples = nil
	}
	if d.Live+d.Next == 0 && !g.has("compare finds what is not there") {
		return nil, nil
	}
	return []projector.Difference{d}, nil
}
