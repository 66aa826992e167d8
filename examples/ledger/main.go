// Ledger runs a file of bank commands, each exactly once, and shows the
// balances. Kill it at any moment and start it again with the same file: it
// ends as if nothing had happened.
//
//	go run ./examples/ledger [flags] [FILE ...]
//
// domain.go holds the facts and the rules; bank.go runs one command;
// schedule.go runs many at once in the order that matters; readmodel.go keeps
// the balances. The rest is what a program around them needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cccgo/ccc/examples/internal/stores"
)

func main() {
	// A reader of our output that goes away is an error of the write, and so
	// leaves the files as they were.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends it at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

const usage = `usage: ledger [flags] [FILE ...]

Runs the commands in the files (JSON Lines; "-" is standard input), each once
for ever, and shows the balances. Without a file it runs a sample.

`

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, help, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		return 0
	}
	code := 1
	if err == nil {
		code, err = o.run(ctx, stdin, stdout, stderr)
	}
	switch {
	case err == nil:
		return code
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "ledger: interrupted. Run it again with the same files: it goes on, and what was done is not done twice.")
	default:
		fmt.Fprintf(stderr, "ledger: %v\n", err)
	}
	return 1
}

func parseFlags(args []string) (o options, help string, err error) {
	o.open = openStore
	flags := flag.NewFlagSet("ledger", flag.ContinueOnError)
	var text strings.Builder
	flags.SetOutput(&text)
	flags.Usage = func() {
		text.Reset()
		text.WriteString(usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.store, "store", "sqlite:ledger.db", stores.Usage)
	flags.IntVar(&o.workers, "workers", 8, "how many commands may run at once; the answers are the same with any `number`")
	flags.StringVar(&o.results, "results", "", "write one JSON line per input line to this `file`")
	flags.StringVar(&o.balances, "balances", "", "write the balances of the open accounts to this `file`, as a JSON object")
	err = flags.Parse(args)
	o.files = flags.Args()
	if err == nil && o.workers < 1 {
		err = fmt.Errorf("-workers %d: at least one has to work", o.workers)
	}
	if err != nil {
		err = fmt.Errorf("%w (-h shows the flags)", err)
	}
	return o, text.String(), err
}

func (o options) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (code int, err error) {
	p, err := placeOf(o.store)
	if err != nil {
		return 1, err
	}
	// All that can be wrong with the files shows before the first command.
	in, err := openInput(o.files, stdin)
	if err != nil {
		return 1, err
	}
	defer in.close()
	var outputs []*output
	defer func() {
		for _, out := range outputs {
			_ = out.discard()
		}
	}()
	open := func(name, flag string) (io.Writer, error) {
		if name == "" {
			return io.Discard, nil
		}
		out, err := newOutput(name, stdout)
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", flag, err)
		}
		outputs = append(outputs, out)
		return out, nil
	}
	results, err1 := open(o.results, "results")
	balances, err2 := open(o.balances, "balances")
	if err := errors.Join(err1, err2); err != nil {
		return 1, err
	}
	if err := apart(p, in, outputs); err != nil {
		return 1, err
	}
	store, err := o.open(ctx, p)
	if err != nil {
		return 1, err
	}
	l, err := newLedger(ctx, store, p, o.workers, stderr)
	if err != nil {
		return 1, err
	}
	defer func() {
		if err := l.close(); err != nil { // all that was answered is durable
			fmt.Fprintf(stderr, "ledger: %v\n", err)
		}
	}()

	s := summary{counts: map[status]int64{}, began: time.Now()}
	bar := newProgress(stderr, in.total)
	lines, object := newLines(results), newObject(balances)
	err = l.process(ctx, in,
		func(of line, r result) error {
			s.add(of, r)
			bar.answered(of)
			return lines.write(r)
		},
		func(account string, balance int64) error {
			s.balance(account, balance)
			return object.write(account, balance)
		})
	bar.end()
	if err == nil {
		err = object.end()
	}
	if err == nil {
		err = publish(outputs, func() error { return s.print(stdout, o, p) })
	}
	return s.exit(), err
}
