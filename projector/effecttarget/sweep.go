package effecttarget

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	sweepEvery = 1000      // versions
	sweepAfter = time.Hour // far above the time that a save may take
)

// sweep removes what processes that died in the middle of a save left behind.
func sweep(path string) {
	dir, name := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // what is left there only takes room
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name+".") || !strings.HasSuffix(e.Name(), ".tmp") {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > sweepAfter {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
