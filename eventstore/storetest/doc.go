// Package storetest holds what every event store must do, as cases that run
// against any [eventstore.Store]. Each promise that a method of Store makes has
// its case; a case says in one sentence what it proves.
//
// A store's own test needs a function that opens it:
//
//	func TestConformance(t *testing.T) {
//		dir := t.TempDir()
//		storetest.Run(t, storetest.Features{Durable: true}, func(name string) (eventstore.Store, error) {
//			return mystore.Open(filepath.Join(dir, name))
//		})
//	}
//
// The same name opens the same log again, another name another log: a case
// that closes its store and opens it again relies on the first, and one that
// looks for events of other boundaries on the second. Names are lower-case
// letters, digits and underscores, and each case uses its own; on a server that
// keeps its data between runs, add to the name what makes it new.
//
// [Features] says what a store can do beyond memory, and how long the races
// take. A store that cannot pass a case says so in Features.Skip, with the
// reason, where readers find it.
//
// # Wrong stores
//
// A suite is worth what it rejects. [Check] runs the same cases outside a test
// and returns what failed, so that a store that is wrong on purpose can be shown
// to fail; the tests of this package do that with about a hundred of them:
//
//	err := storetest.Check(storetest.Features{}, open) // names the case, and what was seen
//
// # Failures
//
// Random cases print their seed; Features.Seed runs them again. Races depend on
// the machine: run them with -race and with more rounds before a release.
package storetest
