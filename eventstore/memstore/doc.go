// Package memstore is an event store in the memory of the process, for tests,
// for simulations and for trying things out. What it holds ends with the
// process.
//
// It keeps every promise of [eventstore.Store], the ones under concurrency too,
// and is fast enough to measure other code against:
//
//	store := memstore.New()
//	runner := command.NewRunner(store, command.Config{})
//
// A Store is one boundary. Two replicas of a service that share a log share one
// *Store; two boundaries are two of them.
//
// Time can stand still in a test: inside a testing/synctest bubble nothing here
// waits on anything but channels.
//
//	synctest.Test(t, func(t *testing.T) { store := memstore.New(); … })
//
// Package storefault wraps a Store to lose answers, land late and fail as real
// ones do.
package memstore
