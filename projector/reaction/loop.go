package reaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// ErrLoop says that reactions seem to lead to each other without end. The error
// is a [*LoopError].
var ErrLoop = errors.New("reactions lead to each other")

// LoopError names the event at which a chain of reactions was too long. Nothing
// was done because of it.
type LoopError struct {
	Reaction string
	EventID  uuid.UUID
	Type     string
	Position consistency.Position
	Depth    int // how many reactions led to the event
	MaxDepth int
}

func (e *LoopError) Error() string {
	return fmt.Sprintf("reaction %q to event %s of type %q at %s: %v: %d reactions led to this event, the limit is %d: "+
		"follow its causation back and break the loop, or, if there is none, raise the limit with WithMaxDepth",
		e.Reaction, e.EventID, e.Type, e.Position, ErrLoop, e.Depth, e.MaxDepth)
}

// Unwrap returns [ErrLoop].
func (e *LoopError) Unwrap() error { return ErrLoop }

const defaultMaxDepth = 32

type maxDepthKey struct{}

// WithMaxDepth sets how many reactions may follow from each other, those run
// with the returned context included. Zero and less mean 32.
func WithMaxDepth(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, maxDepthKey{}, n)
}

func maxDepth(ctx context.Context) int {
	if n, _ := ctx.Value(maxDepthKey{}).(int); n > 0 {
		return n
	}
	return defaultMaxDepth
}
