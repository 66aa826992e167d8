// Package eventstore is the port between the framework and event stores: what a
// store must do, how its errors are told apart, and what is refused before it
// is sent.
//
// A program opens a store and hands it to a runner and to projectors:
//
//	store, err := sqlitestore.Open("bank.db") // or memstore.New(), pgstore.Open(…), orisun.Open(ctx, …)
//	runner := command.NewRunner(store, command.Config{})
//
// The rest of this comment is for those who call a store themselves, or write
// one.
//
// # Reading, deciding, appending
//
// An append may depend on what was read before. [Store.Snapshot] reads matches
// of queries, all as of one moment, and says where the latest match of each one
// is. [Store.Append] takes that as observations and saves only if all of them
// still hold, in one atomic step:
//
//	results, err := store.Snapshot(ctx, eventstore.Part{Query: account})
//	… decide on results[0].Records …
//	_, err = store.Append(ctx, records, []consistency.Observation{{Query: account, At: results[0].Last}})
//
// An observation holds if the latest match is exactly at its position. At zero
// it says that there is no match.
//
// # Following the log
//
// [Store.Page] reads matches in order, in stretches: a page says up to which
// event it is complete, and the next one begins there. [Store.Wait] says when
// it is worth to look again; it is a hint and never the source of events.
// [All] walks over the pages of what is there:
//
//	for record, err := range eventstore.All(ctx, store, query, after) { … }
//
// # Errors
//
// The error of an append carries a [Kind], which [KindOf] finds however deep it
// is wrapped. [Conflict]: read again and decide again. [NotApplied]: nothing
// was stored, for certain. [Ambiguous]: nobody knows yet, so look before you
// try again; an error without a kind counts as this one. [Permanent]: trying
// again is useless, see [ErrInvalid], [ErrDuplicateEvent] and [ErrClosed].
//
// # Writing a store
//
// Implement [Store], call [CheckAppend] and [CheckParts] before anything else,
// and run the suite of package storetest: it holds a case for each promise.
// Positions are made with consistency.NewPosition. The three that are easily
// broken:
//
//   - Once a position is visible no lower one appears later. A counter that is
//     taken before the commit breaks this.
//   - The check of the observations and the save are one step for all writers,
//     on other machines too.
//   - What was answered, a conflict too, is visible to every snapshot that
//     starts afterwards.
package eventstore
