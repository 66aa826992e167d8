package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// How much of what may be long the summary shows.
const (
	shownBalances = 10
	shownInvalid  = 5
	shownName     = 40
)

// summary is what the program prints at the end.
type summary struct {
	counts   map[status]int64
	replayed int64
	lines    int64
	began    time.Time
	took     time.Duration // until the last answer
	wrong    []string      // the first invalid lines, and why
	accounts int64
	shown    [][2]string // the first accounts and their balances
}

func (s *summary) add(l line, r result) {
	s.lines++
	s.counts[r.Status]++
	if r.Replayed != nil && *r.Replayed {
		s.replayed++
	}
	if l.invalid != nil && len(s.wrong) < shownInvalid {
		s.wrong = append(s.wrong, fmt.Sprintf("line %d: %s", l.number, l.invalid))
	}
	s.took = time.Since(s.began)
}

func (s *summary) balance(account string, balance int64) {
	if s.accounts++; s.accounts <= shownBalances {
		s.shown = append(s.shown, [2]string{plain(account), strconv.FormatInt(balance, 10)})
	}
}

// exit is the program's exit code, if it worked.
func (s *summary) exit() int {
	switch {
	case s.counts[contended]+s.counts[unknown] > 0:
		return 3
	case s.counts[invalid] > 0:
		return 2
	}
	return 0
}

func (s *summary) print(to io.Writer, o options, p place) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, st := range []status{committed, refused, reused, invalid, contended, unknown} {
		if n := s.counts[st]; n > 0 || st == committed {
			fmt.Fprintf(w, "%s\t%d\t\n", st, n)
		}
	}
	fmt.Fprintf(w, "lines\t%d\t\n", s.lines)
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d answered by an earlier run or line, %s, %.0f lines/s\n", s.replayed, s.took.Round(time.Millisecond), float64(s.lines)/max(s.took.Seconds(), 1e-6))
	if s.counts[contended]+s.counts[unknown] > 0 {
		fmt.Fprintln(w, "contended and unknown lines: run it again with the same files, what was done is not done twice")
	}
	if len(s.wrong) > 0 {
		fmt.Fprintln(w)
	}
	for _, reason := range s.wrong {
		fmt.Fprintln(w, reason)
	}
	if n := s.counts[invalid] - int64(len(s.wrong)); n > 0 {
		fmt.Fprintf(w, "and %d more invalid lines\n", n)
	}
	fmt.Fprintf(w, "\naccount\tbalance\n")
	for _, row := range s.shown {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	if n := s.accounts - int64(len(s.shown)); n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
	fmt.Fprintln(w)
	for _, row := range [][2]string{{"data", p.String()}, {"results", o.results}, {"balances", o.balances}} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", row[0], row[1])
		}
	}
	return w.Flush()
}

// plain makes a name fit for a terminal, whatever is in it.
func plain(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || strings.TrimSpace(name) != name {
		name = quoted
	}
	if utf8.RuneCountInString(name) > shownName {
		name = string([]rune(name)[:shownName]) + "…"
	}
	return name
}

// progress shows how much of the input is answered, on a terminal.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(to io.Writer, total int64) progress {
	file, ok := to.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return progress{}
	}
	if total == 0 {
		total = -1 // a spinner
	}
	return progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(to),
		progressbar.OptionSetPredictTime(false), // repeats go so much faster than what is new
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p progress) answered(l line) {
	if p.bar != nil {
		_ = p.bar.Set64(l.end)
		p.bar.Describe(fmt.Sprintf("line %d", l.number))
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
