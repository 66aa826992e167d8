package orisun

import (
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/cccgo/ccc/consistency"
)

// moments remembers which observations were seen together, as of one moment. It
// stays true for ever: it is about the past. What is forgotten costs a round
// trip.
type moments struct {
	mu       sync.Mutex
	now, old map[[sha256.Size]byte]struct{}
}

const momentsKept = 4096 // twice

func momentOf(seen []consistency.Observation) [sha256.Size]byte {
	lines := make([]string, len(seen))
	for i, o := range seen {
		lines[i] = o.At.String() + " " + o.Query.String()
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range slices.Compact(lines) {
		sum := sha256.Sum256([]byte(line))
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (m *moments) add(seen []consistency.Observation) {
	if len(seen) < 2 {
		return
	}
	key := momentOf(seen)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.now) >= momentsKept || m.now == nil {
		m.old, m.now = m.now, make(map[[sha256.Size]byte]struct{}, 64)
	}
	m.now[key] = struct{}{}
}

func (m *moments) known(seen []consistency.Observation) bool {
	key := momentOf(seen)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.now[key]
	if !ok {
		_, ok = m.old[key]
	}
	return ok
}
