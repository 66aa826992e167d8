package memstore

import (
	"slices"
	"sort"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
)

// holds says whether place stands in all lists.
func holds(lists []list, place int) bool {
	for _, l := range lists {
		if _, found := slices.BinarySearch(l, place); !found {
			return false
		}
	}
	return true
}

// latest returns the last place in [floor, end) that stands in all lists, or
// -1. The lists take turns: each says what is the last place it could be.
func latest(lists []list, floor, end int) int {
	at := end - 1
	for agreed := 0; agreed < len(lists) && at >= floor; {
		for _, l := range lists {
			was := at
			if at = before(l, at); at < floor {
				return -1
			}
			if agreed++; at != was {
				agreed = 1
			}
		}
	}
	if at < floor {
		return -1
	}
	return at
}

// before returns the last of l that is not above place, or -1. It looks from
// the end in growing steps: what is asked for is mostly recent.
func before(l list, place int) int {
	low, step := len(l), 1
	for low > 0 && l[low-1] > place {
		if low -= step; low < 0 {
			low = 0
		}
		step *= 2
	}
	high := min(low+step, len(l))
	i := low + sort.Search(high-low, func(i int) bool { return l[low+i] > place })
	if i == 0 {
		return -1
	}
	return l[i-1]
}

// branch walks upwards over what stands in all lists. It drops from the lists
// what it has passed.
type branch struct {
	lists []list
	at    int // the match it stands on
}

// seek moves to the first match in [from, end); false: there is none.
func (b *branch) seek(from, end int) bool {
	b.at = from
	for agreed := 0; agreed < len(b.lists) && b.at < end; {
		for i := range b.lists {
			l := drop(b.lists[i], b.at)
			if b.lists[i] = l; len(l) == 0 {
				return false
			}
			if agreed++; l[0] != b.at {
				b.at, agreed = l[0], 1
			}
		}
	}
	return b.at < end
}

// drop returns l from the first that is not below place.
func drop(l list, place int) list {
	high, step := 0, 1
	for high < len(l) && l[high] < place {
		high += step
		step *= 2
	}
	low := max(0, high-step/2)
	high = min(high, len(l))
	return l[low+sort.Search(high-low, func(i int) bool { return l[low+i] >= place }):]
}

// walk is a query as of one moment.
type walk struct {
	view
	branches []branch
}

func (x *index) walk(q consistency.Query) walk {
	w := walk{view: x.view}
	x.each(q, nil, func(lists []list) bool {
		w.branches = append(w.branches, branch{lists: lists})
		return true
	})
	return w
}

// latest returns the last match before end, or -1.
func (w *walk) latest(end int) int {
	last := -1
	for _, b := range w.branches {
		last = max(last, latest(b.lists, last+1, end))
	}
	return last
}

// size returns at least how many matches lie in [from, end), where it is cheap
// to know.
func (w *walk) size(from, end int) int {
	if len(w.branches) != 1 {
		return 0
	}
	switch b := w.branches[0]; len(b.lists) {
	case 0:
		return end - from
	case 1:
		return len(drop(b.lists[0], from)) - len(drop(b.lists[0], end))
	}
	return 0
}

// matches calls f for each match in [from, end), ascending and without doubles,
// until f returns false. It uses the walk up.
func (w *walk) matches(from, end int, f func(place int) bool) {
	// A heap by the match that each branch stands on.
	heap := w.branches[:0]
	for _, b := range w.branches {
		if b.seek(from, end) {
			heap = append(heap, b)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for len(heap) > 0 {
		at := heap[0].at
		if !f(at) {
			return
		}
		for len(heap) > 0 && heap[0].at == at {
			if !heap[0].seek(at+1, end) {
				heap[0] = heap[len(heap)-1]
				heap = heap[:len(heap)-1]
			}
			sink(heap, 0)
		}
	}
}

func sink(heap []branch, i int) {
	for {
		least := 2*i + 1
		if least >= len(heap) {
			return
		}
		if right := least + 1; right < len(heap) && heap[right].at < heap[least].at {
			least = right
		}
		if heap[i].at <= heap[least].at {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

func (w *walk) result(p eventstore.Part) (r eventstore.Result) {
	end := w.n
	if !p.UpTo.IsZero() {
		end = w.upTo(p.UpTo)
	}
	from := w.upTo(p.After)
	last := w.latest(end)
	if last < 0 {
		return r
	}
	r.Last = position(last)
	switch {
	case p.LatestOnly:
		r.Records = []event.Record{*w.at(last)}
	case last >= from:
		r.Records = make([]event.Record, 0, w.size(from, end))
		w.matches(from, last+1, func(place int) bool {
			r.Records = append(r.Records, *w.at(place))
			return true
		})
	}
	return r
}

// A page is bounded in records and in bytes, so that readers stay small.
const (
	pageRecords = 500
	pageBytes   = 4 << 20
)

func (w *walk) page(after consistency.Position, limit int) (p eventstore.Page) {
	if limit < 1 {
		limit = pageRecords
	}
	from, end := w.upTo(after), w.n
	p.Records = make([]event.Record, 0, min(limit, w.size(from, w.n)))
	bytes := 0
	w.matches(from, w.n, func(place int) bool {
		r := w.at(place)
		bytes += len(r.Data)
		if len(p.Records) == limit || bytes > pageBytes && len(p.Records) > 0 {
			end = place
			return false
		}
		p.Records = append(p.Records, *r)
		return true
	})
	// All before the first match that is left out is in the page.
	if end > 0 {
		last := w.at(end - 1)
		p.UpTo, p.UpToID = last.Position, last.ID
	}
	return p
}
