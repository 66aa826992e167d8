// Package reaction lets an event lead to a command, once, however often the
// event is delivered.
//
// # The problem
//
// A full course opens a waiting list; a paid order is shipped, by another
// service with another log. A handler that simply runs a command does it again
// whenever its event comes again: after a crash, a batch that was rolled back, a
// takeover. An outbox table that says what was sent has the same gap one step
// later.
//
// # The smallest use
//
// In a handler of any projector, with any target:
//
//	func(ctx context.Context, tx *memtarget.Tx[int], d projector.Delivery) error {
//		if e, ok := d.Event.(CourseFilled); ok {
//			return reaction.Run(ctx, runner, d, "open the waiting list", OpenWaitingList{e.Course})
//		}
//		return nil
//	}
//
// The command's ID follows from the event's ID and the reaction's name ([ID]),
// so the log of the command itself knows whether it was done: nothing else has
// to be stored. The runner may be of another boundary, with a store and a codec
// of its own. In the metadata of what it writes, the event is the causation, and
// correlation and depth go on from it.
//
// # The answer
//
// Run returns nil once the command has had its last word: it is committed, there
// was nothing to do, or it is refused. The last two are recorded too, whatever
// the runner's Config says: a redelivery gets the same answer, although the
// command would be decided otherwise by then. So a refusal has to be an event
// type of the command's codec; a plain error is misuse, the event fails and
// nothing is passed. (Return no events where the refusal is nobody's business.)
// [Ask] is for handlers that need the answer.
//
// Contended, unavailable and unknown are no last words. Their errors are
// [projector.ErrHold]: whatever the policy is, the event is tried until there is
// one. Everything else fails the event under the projector's policy. If that
// skips it, the command happens at most once.
//
// # The payload
//
// It has to follow from the event alone. One that is made of the time, or of a
// model that changes, may be another one when the event comes again, and then
// the error is [command.ErrIDReused]: the command was done, with the first
// payload, and nothing happens now. The same error says that a handler runs two
// commands under one name, of which the second would be lost; nothing tells the
// two apart, so the event fails. Whoever knows that the code of a reaction was
// changed, and that all is well, passes these events in the handler
// (errors.Is(err, command.ErrIDReused)), or with a [projector.Policy] that skips
// them, which is counted and reported; an event that was held before is not
// skipped. A field whose value does not matter is tagged `ccc:"-"`.
//
// # Loops
//
// Two reactions that cause each other's events would never end. Each event
// carries how many reactions led to it; where the number reaches a limit of 32,
// or that of [WithMaxDepth], the event fails with [ErrLoop]. (Depth is lost
// where an event is written by something else than a command in between.)
//
// # Limits
//
// A reaction runs inside the transaction of its batch, for as long as its runner
// allows, so give it a projector of its own where others wait for the model; and
// its target must not lock what the command's store writes to. A rebuild delivers
// events with [projector.Delivery.Replay] set, and then nothing is done. A new
// projector name, or a target that was lost, starts at the first event: what was
// done before has its answer, what is new in the code is done for all old events
// too.
package reaction
