// Package event turns domain events into stored ones and back.
//
// A log outlives the program that wrote it. What is stored today is read by next
// year's program, under names that were changed since, into types that have
// grown. So an event's name and its JSON are a storage format, and this package
// is the one place that knows it: commands, projectors and tools decode by the
// same [Codec] and see the same values.
//
// An event is a plain value with a name. A codec is made of all event types of a
// program, once:
//
//	type Opened struct {
//		Account string `json:"accountId"`
//	}
//
//	func (Opened) EventType() string { return "AccountOpened" }
//
//	var events = event.NewCodec(event.Of[Opened](), event.Of[Posted]())
//
// [NewCodec] panics where a fact would be lost or could not be read back: fields
// that are not exported, interfaces, two types under one name. So a wrong type
// is found when the program starts, before its first event is in the log.
//
// What can be queried are the top-level keys whose values are strings. A number
// that is queried, or that must pass through a server whose JSON has no 64-bit
// integers, gets the option ",string" in its tag. [Codec.Query] refuses a query
// for a key that no event type has as a string, because it would observe nothing
// in silence. The keys commandId, eventType and those that begin with two
// underscores are the framework's.
//
// # When an event type changes
//
// A new field needs nothing: in older events it is zero. A new name keeps the
// old one:
//
//	event.Of[Opened]().Formerly("AccountCreated")
//
// Events of both names are decoded, and matched by queries, as one type. A
// changed meaning or form is a new version. The old Go type stays, without
// methods, and a step leads from each version to the next:
//
//	event.Of[Opened](event.From(func(o openedV1) Opened { … }))
//
// Steps run when an event is decoded, after it was matched. So a key that is
// queried cannot be renamed by them: a query asks for both keys by Or, and
// [Codec.Query] says so where one is missing. Keep one stored event of each
// version in a file, and a test that decodes them all.
//
// What cannot be decoded is a [*DecodeError]: a type that is not in the codec
// ([ErrUnknownType]), or data that does not fit it ([ErrUndecodable]). Nothing
// is passed over.
//
// # What commands add
//
// A command's ID stands in the data of each event that it wrote, under
// commandId; domain types do not see it. The events' own IDs follow from it
// ([DerivedID]). [Fingerprint] tells one payload from another, so that a
// command's ID is not used for two. A [Marker] records that a command was
// refused. [Metadata] is what is known beside the content.
package event
