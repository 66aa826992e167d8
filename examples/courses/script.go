package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/cccgo/ccc/command"
	"github.com/google/uuid"
)

// line is one line of a script: KEY offer COURSE SEATS, or KEY enrol COURSE
// STUDENT. The key makes it the same command each time.
type line struct {
	key  string
	text string
	ask  func(context.Context, *command.Runner, uuid.UUID) (answer, error)
}

func parse(script string) (lines []line, err error) {
	n := 0
	for text := range strings.Lines(script) {
		n++
		f := strings.Fields(text)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) != 4 {
			return nil, fmt.Errorf("line %d: give KEY offer COURSE SEATS, or KEY enrol COURSE STUDENT", n)
		}
		l := line{key: f[0], text: strings.Join(f[1:], " ")}
		switch f[1] {
		case "offer":
			seats, err := strconv.Atoi(f[3])
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is no number of seats", n, f[3])
			}
			l.ask = asking(Offer{f[2], seats}, offered)
		case "enrol":
			l.ask = asking(Enrol{f[2], f[3]}, enrolled)
		default:
			return nil, fmt.Errorf("line %d: %q is no command: offer or enrol", n, f[1])
		}
		lines = append(lines, l)
	}
	return lines, nil
}
