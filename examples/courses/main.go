// Courses lets students enrol in courses whose seats are limited, each a few at
// most. A course that is full opens its waiting list by itself. Kill it at any
// moment and start it again with the same script: it ends as if nothing had
// happened.
//
//	go run ./examples/courses [-store memory: | sqlite:FILE | orisun://…] [SCRIPT]
//
// facts.go holds what can happen, enrol.go and offer.go the rules, waitinglist.go
// the reaction, seats.go the read model. school.go puts them together, script.go
// reads a script, play.go runs it.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/cccgo/ccc/examples/internal/stores"
)

//go:embed script.txt
var sample string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends it at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "courses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("courses", flag.ContinueOnError)
	where := flags.String("store", "memory:", stores.Usage)
	if err := flags.Parse(args); err != nil {
		return err
	}
	text := sample
	if name := flags.Arg(0); name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = string(data)
	}
	lines, err := parse(text)
	if err != nil {
		return err
	}
	s, err := open(ctx, *where)
	if err != nil {
		return err
	}
	err = s.work(ctx, func(ctx context.Context) error { return s.play(ctx, lines, stdout) })
	return errors.Join(err, s.close())
}
