// Package storefault wraps an event store to make it fail as stores on real
// networks do: answers are lost, appends land after the caller gave up, a
// transport sends a request twice, reads fail, pages lag, hints do not come.
// Code that passes on a quiet store and not on this one has a fault that
// production would find.
//
// Faults by chance are for long random runs. They follow from a seed, so that
// what failed can be run again:
//
//	store := storefault.New(memstore.New(), storefault.Rough(seed, 0.1))
//	… run commands against store, as many as you like …
//	store.Settle() // what is still on its way lands now
//	… look at the log: each command is in it at most once, and where it was answered …
//
// Faults by script are for one scenario, call by call:
//
//	store := storefault.New(memstore.New(), storefault.Config{})
//	store.Script(storefault.LoseAnswer)                    // the next append lands, its answer does not come
//	store.Script(storefault.LandBefore(2), storefault.Refuse) // the next one lands late, the one after it never
//
// A hook ([Store.Before], [Store.After]) acts between calls, such as another
// replica that writes between a read and an append, and [Store.Counts] counts
// round trips.
//
// # What stays true
//
// Whatever is injected, the wrapped store keeps the promises of
// [eventstore.Store]: an append that was answered is visible, one that is not
// applied never lands, a page skips nothing. Two faults go further and say so:
// lost hints (a reader must have an interval of its own) and stale reads, which
// break the port.
//
// Time is only waited for with timers and channels, so that all of it runs in a
// testing/synctest bubble. A Store that was closed leaves nothing running.
package storefault
