package projector

import (
	"context"

	"github.com/cccgo/ccc/consistency"
	"github.com/google/uuid"
)

// Generations is a Target that can keep a new generation of its model beside
// the live one, for [Rebuild].
type Generations[Tx any] interface {
	Target[Tx]
	// Names are the names that have a state in the live generation.
	Names(ctx context.Context) ([]Name, error)
	// Ahead lists the events that are marked under a name, in the live
	// generation, at positions after one: what lanes have done beyond the
	// checkpoint.
	Ahead(ctx context.Context, name Name, after consistency.Position) ([]uuid.UUID, error)
	// Next opens the generation that is being built: the one that an earlier
	// rebuild of the same tag left unfinished, or else an empty one. What one of
	// another tag left is dropped.
	Next(ctx context.Context, tag string) (Generation[Tx], error)
	// Drop removes the generations that are neither live nor being built, and
	// says how many they were. Who still reads one keeps it until the end of
	// that read.
	Drop(ctx context.Context) (int, error)
}

// Generation is one that is being built. It is a Target of its own, empty at
// first, and no reader of the model sees it.
type Generation[Tx any] interface {
	Target[Tx]
	// Switch makes this generation the live one, in one step, if ready returns
	// nil; else its error is returned and nothing has changed. While ready runs
	// nobody commits to the live generation, whose State and model can be read,
	// and this one can be written to; that hold ends with this process, and if it
	// was lost meanwhile Switch fails. Afterwards every Target that was opened on
	// the model, in other processes too, works on this generation, and so does
	// each read that begins. All claims, of both, are over; the epochs of the
	// names are above those of both. The old one is kept until Drop. After an
	// error that is not ready's it is open which one is live.
	Switch(ctx context.Context, ready func(context.Context) error) error
	// Compare lists the differences between the models of the live generation
	// and this one, if they are comparable. It is called inside ready.
	Compare(ctx context.Context) ([]Difference, error)
	// Close ends the work on it and keeps it, so that Next finds it.
	Close() error
}

// Difference is what differs in one table, or what else the target's model
// consists of.
type Difference struct {
	Table    string
	Live     int64    // rows that only the live generation has
	Next     int64    // rows that only the new one has
	Examples []string // some of them, in words
}
