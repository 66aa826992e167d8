// Package progress prints how far a [projector.Rebuild] is:
//
//	cfg.Progress = progress.To(os.Stderr)
package progress

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cccgo/ccc/projector"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// plainEvery is the least time between two plain lines about the same thing.
const plainEvery = 10 * time.Second

// To returns what is to be RebuildConfig.Progress: on a terminal it draws a bar
// for each projector, elsewhere it prints one line per 10 s, and one where a
// phase begins. It starts nothing, and is for one rebuild.
func To(w io.Writer) func(projector.Progress) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return (&bars{to: w}).show
	}
	return (&lines{to: w}).show
}

// lines prints for who reads it later.
type lines struct {
	to    io.Writer
	last  projector.Progress
	wrote time.Time
}

func (l *lines) show(p projector.Progress) {
	if p.Name == l.last.Name && p.Phase == l.last.Phase && time.Since(l.wrote) < plainEvery {
		return
	}
	l.last, l.wrote = p, time.Now()
	fmt.Fprintln(l.to, line(p))
}

// line is a progress in words.
func line(p projector.Progress) string {
	s := fmt.Sprintf("%s: %s: position %s of %s, %d of about %d events", p.Name, p.Phase, p.Position, p.Goal, p.Done, p.About)
	if p.Phase != projector.Building || p.Rate <= 0 {
		return s
	}
	s += fmt.Sprintf(", %.0f/s", p.Rate)
	if p.Left > 0 {
		s += fmt.Sprintf(", about %s left", p.Left.Round(time.Second))
	}
	return s
}

// bars draws.
type bars struct {
	to  io.Writer
	of  projector.Name
	bar *progressbar.ProgressBar
	new []progressbar.Option // for tests
}

func (b *bars) show(p projector.Progress) {
	if b.bar == nil || b.of != p.Name {
		if b.bar != nil {
			_ = b.bar.Exit()
			fmt.Fprintln(b.to)
		}
		b.of = p.Name
		b.bar = progressbar.NewOptions64(most(p), append([]progressbar.Option{
			progressbar.OptionSetWriter(b.to),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("events"),
			progressbar.OptionThrottle(0),
		}, b.new...)...)
	}
	b.bar.ChangeMax64(most(p))
	b.bar.Describe(fmt.Sprintf("%s: %s", p.Name, p.Phase))
	_ = b.bar.Set64(p.Done)
	if p.Phase == projector.Switched || p.Phase == projector.Compared {
		_ = b.bar.Exit()
		fmt.Fprintln(b.to)
		b.bar = nil
	}
}

// most is the goal of a bar, one more than what is done until all is.
func most(p projector.Progress) int64 {
	if p.Phase == projector.Building || p.Phase == projector.Comparing {
		return max(p.About, p.Done) + 1
	}
	return max(p.Done, 1)
}
