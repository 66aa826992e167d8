package eventstore

import (
	"context"
	"iter"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/google/uuid"
)

// Store is a log of events, opened for one boundary. All methods may be called
// by any number of goroutines at once. What a store promises is written at each
// method; package storetest holds a case for each promise.
type Store interface {
	// Append saves records, all or none, if every observation in seen still
	// holds: the latest match of its query is exactly at its position. The
	// checks and the save are one atomic step. No observations: saved
	// unconditionally.
	//
	// The positions of the records are above all that was visible before, no
	// other event lies between them, and once a position is visible no lower one
	// appears later.
	//
	// An error has a [Kind]: [Conflict] where an observation does not hold,
	// [NotApplied] where nothing was stored for certain, [Ambiguous] where it
	// may have been or may yet be, [Permanent] where trying again is useless
	// (nothing was stored by this call): [ErrInvalid], [ErrDuplicateEvent],
	// [ErrClosed]. An answer, a conflict too, is given only when all that it
	// is about is durable and visible to snapshots that start afterwards.
	Append(ctx context.Context, records []event.Record, seen []consistency.Observation) (Receipt, error)

	// Snapshot reads all parts as of one moment. The moment is not before any
	// append that was answered (saved or conflict) before the call. A result
	// is complete, or the whole call is an error; results are in the order of
	// parts.
	Snapshot(ctx context.Context, parts ...Part) ([]Result, error)

	// Page reads matches of q after a position, in ascending order, at most
	// limit of them (limit below 1: the store's choice; a store may return
	// fewer). It may lag behind appends but skips nothing: every match after
	// the position and up to Page.UpTo is in the page or was before it.
	Page(ctx context.Context, q consistency.Query, after consistency.Position, limit int) (Page, error)

	// Wait returns nil when the log may hold events after the position (a hint
	// to look again; at once where it does already), and ctx's error when ctx
	// ends first. What is there comes from Page, never from Wait.
	Wait(ctx context.Context, after consistency.Position) error

	// Features tells what callers may rely on. It never changes.
	Features() Features

	// Close ends the store's work. Calls that are running end with an error or
	// their answer, later ones with [ErrClosed]. A second Close does nothing.
	Close() error
}

// Features is what a store says about itself. The zero value promises nothing.
type Features struct {
	// UniqueEventIDs says that the store refuses a second event with the same
	// event_id in its boundary.
	UniqueEventIDs bool
	// Log identifies the log (of one boundary) for its whole life, so that a
	// new log in the same place is noticed. The zero UUID where the store
	// cannot tell.
	Log uuid.UUID
}

// Receipt is the answer to an append that was saved.
type Receipt struct {
	// Positions has one position per record, ascending.
	Positions []consistency.Position
}

// Part asks for a query's history, or for its latest match alone.
type Part struct {
	Query consistency.Query
	// After leaves out of the history what lies at or before it. Zero: from
	// the start. It does not affect LatestOnly.
	After consistency.Position
	// UpTo leaves out what lies after it. Zero: up to the head of the log.
	UpTo consistency.Position
	// LatestOnly asks for no more than the latest match.
	LatestOnly bool
}

// Result answers a [Part].
type Result struct {
	// Records are the matches asked for, ascending.
	Records []event.Record
	// Last is the position of the latest match up to Part.UpTo, whether it is
	// in Records or lies at or before Part.After. Zero where there is none.
	Last consistency.Position
}

// Page is a stretch of a log. Every match up to UpTo, and after the position
// that was asked for, is in it.
type Page struct {
	Records []event.Record
	// UpTo is the position of the last event that the page is complete up to,
	// matching or not; UpToID is the event_id there. Where nothing lies after
	// the position asked for, UpTo is not after it: it is the log's last
	// event, or zero for an empty log.
	UpTo   consistency.Position
	UpToID uuid.UUID
}

// All walks over every match of q after a position that is in the log when the
// walk gets there. An error is the last pair. It holds nothing between pages.
func All(ctx context.Context, s Store, q consistency.Query, after consistency.Position) iter.Seq2[event.Record, error] {
	return func(yield func(event.Record, error) bool) {
		for {
			page, err := s.Page(ctx, q, after, 0)
			if err != nil {
				yield(event.Record{}, err)
				return
			}
			for _, r := range page.Records {
				if !yield(r, nil) {
					return
				}
			}
			if !page.UpTo.After(after) {
				return
			}
			after = page.UpTo
		}
	}
}
