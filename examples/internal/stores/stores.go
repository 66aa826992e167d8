// Package stores opens what the flag -store of the examples names.
package stores

import (
	"context"
	"fmt"
	"strings"

	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/memstore"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/sqlitestore"
)

// Usage is for the flag's description.
const Usage = "where the data is: sqlite:`FILE`, orisun://USER:PASSWORD@HOST:PORT/BOUNDARY, or memory:"

// Place is where the data is.
type Place struct {
	// Name is for people; it has no password.
	Name string
	// File is the log's; empty where it is in no file of this machine.
	File string
	// Beside is how the names of the files of read models begin; empty: they
	// are in memory as the log is.
	Beside string

	open func(context.Context, *event.Codec) (eventstore.Store, error)
}

// Parse reads the flag.
func Parse(text string) (Place, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case scheme == "memory" && rest == "":
		return Place{Name: "in memory", open: func(context.Context, *event.Codec) (eventstore.Store, error) { return memstore.New(), nil }}, nil
	case scheme == "sqlite" && rest != "":
		return Place{Name: rest, File: rest, Beside: rest, open: func(context.Context, *event.Codec) (eventstore.Store, error) {
			return sqlitestore.Open(rest)
		}}, nil
	case scheme == "orisun":
		config, err := orisun.ParseDSN(text)
		if err != nil {
			return Place{}, fmt.Errorf("-store: %w", err)
		}
		return Place{Name: config.String(), Beside: config.Boundary, open: func(ctx context.Context, codec *event.Codec) (eventstore.Store, error) {
			config.Keys = codec.Keys()
			if err := config.Setup(ctx); err != nil {
				return nil, err
			}
			return config.Open(ctx)
		}}, nil
	}
	return Place{}, fmt.Errorf("-store %q: give sqlite:FILE for a file, such as sqlite:bank.db, orisun://… for a boundary of an Orisun server, or memory: for a try that leaves nothing behind", shown(text))
}

// shown leaves out what may hold a password.
func shown(text string) string {
	if scheme, _, found := strings.Cut(text, "://"); found {
		return scheme + "://…"
	}
	return text
}

// Open opens the log; codec has the types of its events.
func (p Place) Open(ctx context.Context, codec *event.Codec) (eventstore.Store, error) {
	return p.open(ctx, codec)
}
