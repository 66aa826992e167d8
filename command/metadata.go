package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/cccgo/ccc/event"
)

type givenKey struct{}

// given is what the caller put into the context.
type given struct {
	custom                 map[string]string
	correlation, causation string
	depth                  int
	record                 bool // refusals
}

func givenIn(ctx context.Context) given {
	g, _ := ctx.Value(givenKey{}).(given)
	return g
}

// WithMetadata adds to what stands in the metadata of each event that commands
// run with the returned context write: the actor, the tenant, a trace. It is
// no part of the fingerprint; a repeat shows the first caller's. Keys that
// begin with "ccc." are the framework's and fail the command.
func WithMetadata(ctx context.Context, metadata map[string]string) context.Context {
	g := givenIn(ctx)
	g.custom = maps.Clone(g.custom)
	if g.custom == nil {
		g.custom = make(map[string]string, len(metadata))
	}
	maps.Copy(g.custom, metadata)
	return context.WithValue(ctx, givenKey{}, g)
}

// WithCorrelation says what began it all, such as the ID of a request or of
// the first command. Without it, each command is its own beginning.
func WithCorrelation(ctx context.Context, correlation string) context.Context {
	g := givenIn(ctx)
	g.correlation = correlation
	return context.WithValue(ctx, givenKey{}, g)
}

// WithCause says that commands run with the returned context follow from an
// event: its ID is their causation, its correlation (or its ID, if it has none)
// is theirs, and their depth is one more than its.
func WithCause(ctx context.Context, cause event.Record) context.Context {
	g := givenIn(ctx)
	g.causation = cause.ID.String()
	g.correlation = cmp.Or(cause.Metadata.Correlation, g.causation)
	g.depth = cause.Metadata.Depth + 1
	return context.WithValue(ctx, givenKey{}, g)
}

// WithRecordedRefusals is [Config.RecordRefusals] for the commands run with the
// returned context alone, whatever their runner's Config says.
func WithRecordedRefusals(ctx context.Context) context.Context {
	g := givenIn(ctx)
	g.record = true
	return context.WithValue(ctx, givenKey{}, g)
}

// metadata is what all events of a call have in common.
func (g given) metadata(name, fingerprint, id string) (event.Metadata, error) {
	for k := range g.custom {
		if event.ReservedMetadata(k) {
			return event.Metadata{}, fmt.Errorf("%w: metadata key %q is one of the framework's: use another", ErrMisuse, k)
		}
	}
	m := event.Metadata{
		Command: name, Fingerprint: fingerprint, Custom: g.custom,
		Correlation: g.correlation, Causation: g.causation, Depth: g.depth,
	}
	if m.Correlation == "" {
		m.Correlation = id
	}
	if m.Causation == "" {
		m.Causation = id
	}
	return m, nil
}
