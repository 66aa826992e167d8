// Package consistency says what a decision depends on, and what of it was seen.
//
// A service decides on facts that others change at the same time: is there
// enough money, is a seat free, is the name taken. A version number per object
// protects too much (two people who change different things collide) and too
// little (a transfer depends on two accounts at once). Here a decision names
// the facts that it depends on by their content, with a [Query]:
//
//	consistency.Where("accountId", "ada")
//
// meets every event whose data has the string "ada" under the top-level key
// accountId. Queries combine: of one type of event, both of two conditions, one
// of them.
//
//	consistency.Where("accountId", "ada").Type("AccountOpened")
//	consistency.Where("courseId", "go").And(consistency.Where("studentId", "bob"))
//	consistency.Where("from", "ada").Or(consistency.Where("to", "ada"))
//
// Every event stands at a [Position] in the log of its boundary, and positions
// grow in the order of commits. What a decision saw is an [Observation]: a query
// and the position of its latest match. The new events are saved only if that
// is still the latest match; otherwise the decision is made again, on what is
// there now. Nothing else is locked, and nothing is declared beforehand.
//
// What can be queried is the same on every store: the type of an event, and the
// top-level keys of its data whose values are strings of at most [MaxValue]
// bytes. A number, a boolean or a time that is to be queried is stored as a
// string; what should not be indexed goes into a nested object. [Tags] returns
// what of an event's data is indexed, [Query.Matches] answers for one event,
// and [Query.Validate] says which queries no store takes.
//
// All of this is plain values without I/O. Package event turns Go types into
// such data, package eventstore keeps it.
package consistency
