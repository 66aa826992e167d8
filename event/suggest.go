package event

import (
	"fmt"
	"strings"
)

// didYouMean returns a hint that begins with a space where one of the names is
// close to what was written, and nothing otherwise.
func didYouMean(written string, names []string) string {
	if best := closest(written, names); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}

// closest returns the name at the least distance from what was written; empty
// where none is close.
func closest(written string, names []string) (best string) {
	least := 2 + len(written)/5
	for _, name := range names {
		if d := distance(written, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters to add, take away, change or swap with their
// neighbour (a letter's case does not count for much: half of the names differ
// by it alone).
func distance(a, b string) int {
	if strings.EqualFold(a, b) {
		return 0
	}
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	before, last, now := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		now[0] = i + 1
		for j := range y {
			change := last[j]
			if x[i] != y[j] {
				change++
			}
			now[j+1] = min(last[j+1]+1, now[j]+1, change)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(y)]
}
