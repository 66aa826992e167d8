package sqlitestore

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// What an event can be looked up by.
const (
	byBoundary = 'a'
	byType     = 't'
	byID       = 'i' // its own, and its command's
	byTag      = 'k'
)

// hashMask is there for tests, which make hashes collide.
var hashMask = ^uint64(0)

// hash is under what lookup a thing of a boundary stands. It is part of the
// file's format.
func hash(boundary int64, kind byte, key, value string) int64 {
	var buf [2*consistency.MaxValue + 32]byte
	b := binary.BigEndian.AppendUint64(buf[:0], uint64(boundary))
	b = append(b, kind)
	b = binary.AppendUvarint(b, uint64(len(key))) // "a","bc" is not "ab","c"
	b = append(b, key...)
	b = append(b, value...)
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]) & hashMask)
}

// hashes returns where an event is to stand, without doubles.
func hashes(boundary int64, id uuid.UUID, eventType string, tags []consistency.Tag) []int64 {
	out := make([]int64, 0, 3+len(tags))
	out = append(out, hash(boundary, byBoundary, "", ""), hash(boundary, byType, "", eventType), hashID(boundary, id))
	for _, t := range tags {
		out = append(out, hashTag(boundary, t))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func hashID(boundary int64, id uuid.UUID) int64 { return hash(boundary, byID, "", id.String()) }

// hashTag puts the command's ID in the list of the event's own. They are the
// same for the first event of a command, which so needs one entry less; and IDs
// are what lies scattered over the index and costs most.
func hashTag(boundary int64, t consistency.Tag) int64 {
	if t.Key == consistency.CommandKey {
		return hash(boundary, byID, "", t.Value)
	}
	return hash(boundary, byTag, t.Key, t.Value)
}

// query is a consistency.Query made ready for lookups in one boundary.
type query struct {
	boundary int64
	branches []criterion
}

// criterion is one branch of a query: an event that it meets stands in every
// list of all, and in one of any where any is not empty.
type criterion struct {
	consistency.Criterion
	all, any []int64
}

func compile(boundary int64, q consistency.Query) query {
	criteria := q.Criteria()
	out := query{boundary, make([]criterion, len(criteria))}
	for i, c := range criteria {
		b := criterion{Criterion: c}
		for _, t := range c.Tags {
			b.all = append(b.all, hashTag(boundary, t))
		}
		for _, t := range c.Types {
			b.any = append(b.any, hash(boundary, byType, "", t))
		}
		if len(c.Tags)+len(c.Types) == 0 {
			b.all = []int64{hash(boundary, byBoundary, "", "")}
		}
		out.branches[i] = b
	}
	return out
}

// scan walks over the matches of a query in one direction, without reading what
// lies between them.
type scan struct {
	*session
	boundary int64
	step     int64 // +1 or -1
	end      int64 // the last position of interest
	last     int64 // the position that was looked at last
	branches []branch
}

type branch struct {
	criterion *criterion
	all, any  []list
	// narrow says that the lists of types take part. As long as every event
	// that has the tags has the type too, they would be sought in vain.
	narrow bool
	at     int64 // the next candidate
	ended  bool
}

// list is one stretch of the lookup table: the positions under one hash. A part
// of it is held, which gets longer while it is used up step by step.
type list struct {
	h     int64
	held  []int64
	used  int // of held, what lies behind
	size  int
	ended bool // nothing lies beyond what is held
}

const (
	firstSize = 2   // positions read after a jump
	mostSize  = 512 // positions read at once
)

// scan starts a walk from a position, to end at another; from above to is a
// walk backwards.
func (s *session) scan(q *query, from, to int64) *scan {
	sc := &scan{session: s, boundary: q.boundary, step: 1, end: to}
	if from > to {
		sc.step = -1
	}
	sc.last = from - sc.step
	n := 0
	for i := range q.branches {
		n += len(q.branches[i].all) + len(q.branches[i].any)
	}
	lists := make([]list, 0, n)
	add := func(hs []int64) []list {
		at := len(lists)
		for _, h := range hs {
			lists = append(lists, list{h: h})
		}
		return lists[at:len(lists):len(lists)]
	}
	sc.branches = make([]branch, len(q.branches))
	for i := range q.branches {
		c := &q.branches[i]
		sc.branches[i] = branch{criterion: c, all: add(c.all), any: add(c.any), narrow: len(c.all) == 0, at: sc.last}
	}
	return sc
}

// next moves to the next match, whose row it leaves in the session.
func (sc *scan) next() (found bool, err error) {
	for {
		pos, found, err := sc.candidate()
		if err != nil || !found {
			return false, err
		}
		if err := sc.read(pos); err != nil {
			return false, err
		}
		if sc.matches(pos) {
			return true, nil
		}
	}
}

// candidate moves to the next position where some branch may have a match.
func (sc *scan) candidate() (pos int64, found bool, err error) {
	for i := range sc.branches {
		b := &sc.branches[i]
		if b.at == sc.last && !b.ended {
			if err := sc.advance(b, sc.last+sc.step); err != nil {
				return 0, false, err
			}
		}
		if !b.ended && (!found || sc.before(b.at, pos)) {
			pos, found = b.at, true
		}
	}
	sc.last = pos
	return pos, found, nil
}

// matches compares the row at pos with the branches that led to it.
func (sc *scan) matches(pos int64) (met bool) {
	if sc.row.boundary != sc.boundary {
		return false
	}
	for i := range sc.branches {
		b := &sc.branches[i]
		if b.ended || b.at != pos {
			continue
		}
		c := b.criterion
		if len(c.Types) > 0 && !slices.Contains(c.Types, sc.row.eventType) {
			b.narrow = true
			continue
		}
		if len(c.Tags) == 0 || c.Matches(sc.row.eventType, sc.row.tags()) {
			met = true
		}
	}
	return met
}

// advance moves a branch to its first candidate from pos on: every list is asked
// for its first position from there, and the farthest answer is asked of all
// again until they agree. So a rare list leaps over what a common one holds.
func (sc *scan) advance(b *branch, pos int64) error {
	for {
		asked := pos
		for i := range b.all {
			at, found, err := sc.first(&b.all[i], pos)
			if err != nil || !found {
				b.ended = !found
				return err
			}
			pos = at
		}
		if b.narrow {
			at, found, err := sc.firstOf(b.any, pos)
			if err != nil || !found {
				b.ended = !found
				return err
			}
			pos = at
		}
		if pos == asked {
			b.at = pos
			return nil
		}
	}
}

// firstOf returns the first position from pos on that is in any of the lists.
func (sc *scan) firstOf(lists []list, pos int64) (best int64, found bool, err error) {
	for i := range lists {
		at, ok, err := sc.first(&lists[i], pos)
		if err != nil {
			return 0, false, err
		}
		if ok && (!found || sc.before(at, best)) {
			best, found = at, true
		}
		if found && best == pos {
			break
		}
	}
	return best, found, nil
}

// first returns the first position of a list from pos on.
func (sc *scan) first(l *list, pos int64) (at int64, found bool, err error) {
	if sc.before(sc.end, pos) {
		return 0, false, nil
	}
	stepped := len(l.held) > 0 && l.held[len(l.held)-1]+sc.step == pos
	for l.used < len(l.held) && sc.before(l.held[l.used], pos) {
		l.used++
	}
	if l.used < len(l.held) {
		return l.held[l.used], true, nil
	}
	if l.ended {
		return 0, false, nil
	}
	if stepped {
		l.size = min(4*l.size, mostSize)
	} else {
		l.size = firstSize
	}
	l.used = 0
	l.held, err = sc.seek(l.held[:0], l.h, pos, sc.end, l.size)
	if err != nil {
		return 0, false, err
	}
	l.ended = len(l.held) < l.size
	if len(l.held) == 0 {
		return 0, false, nil
	}
	return l.held[0], true, nil
}

func (sc *scan) before(a, b int64) bool {
	if sc.step > 0 {
		return a < b
	}
	return a > b
}

// top lies after every event, and leaves room for a step.
const top = math.MaxInt64 - 1

// place is a position as the number it has in the file. What no file can hold
// is top.
func place(p consistency.Position) int64 {
	major, minor := p.Parts()
	if major > 0 || minor > top {
		return top
	}
	return int64(minor)
}

func position(pos int64) consistency.Position { return consistency.NewPosition(0, uint64(pos)) }
