package effecttarget

import "time"

// gatherLimit bounds what one waits for others.
const gatherLimit = 5 * time.Millisecond

// gather waits until each running batch waits for a save too, so that lanes
// share one instead of taking turns; but not longer than half of what a save
// takes, and not at all for one that is alone.
func (c *cell) gather() {
	c.mu.Lock()
	limit := min(c.took/2, gatherLimit)
	c.mu.Unlock()
	if limit <= 0 {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for c.more() {
		select {
		case <-c.came:
		case <-timer.C:
			return
		}
	}
}

// more says whether a batch may still come to those that wait.
func (c *cell) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := 0
	for _, ch := range c.queue {
		if ch.batch {
			waiting++
		}
	}
	return waiting > 0 && waiting < c.open
}

func (c *cell) nudge() {
	select {
	case c.came <- struct{}{}:
	default:
	}
}

// enter counts a batch whose work runs.
func (c *cell) enter() (leave func()) {
	c.mu.Lock()
	c.open++
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		c.open--
		c.mu.Unlock()
		c.nudge()
	}
}
