// Package targettest holds what every [projector.Target] must pass: a case for
// each promise that is written at the interface.
//
// The author of a target tells how it is opened, how a handler puts and gets a
// text under a key, and what the target can do:
//
//	func TestTarget(t *testing.T) {
//		targettest.Run(t, targettest.Features{Durable: true}, targettest.Subject[*mytarget.Tx]{
//			Open: func(name string) (projector.Target[*mytarget.Tx], error) { … }, // same name: same data
//			Put:  func(tx *mytarget.Tx, key, value string) error { … },
//			Get:  func(tx *mytarget.Tx, key string) (string, bool, error) { … },
//			Read: func(t projector.Target[*mytarget.Tx], key string) (string, bool, error) { … },
//		})
//	}
//
// What the target cannot do is left out by its [Features], and then has to be
// said in the target's documentation. A target that is a projector.LaneTarget or
// a projector.Generations is tested as one: Read then gets its generations too.
// One that does not promise projector.ExactlyOnce may keep effects and marks of
// work that failed.
//
// [Check] runs the same cases without a test and returns what failed: with it a
// wrong target can be shown to fail.
package targettest
