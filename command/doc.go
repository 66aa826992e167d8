// Package command runs commands: decisions that must be right while facts
// change, whatever is retried, raced, lost or repeated.
//
// # The problem
//
// A service reads some facts, decides, and saves what follows. Between the read
// and the save the facts may change; the answer of the save may be lost; the
// caller may ask again, of another replica; the process may die. Each of these
// makes a plain read-decide-write wrong now and then.
//
// # The smallest use
//
// A command is a value with three methods. Its fields are the payload:
//
//	type Withdraw struct {
//		Account string
//		Cents   int64
//	}
//
//	func (Withdraw) CommandName() string              { return "withdraw" }
//	func (c Withdraw) Context() command.View[Account] { return accounts.History(consistency.Where("accountId", c.Account)) }
//	func (c Withdraw) Decide(a Account) ([]event.Event, error) {
//		if a.Cents < c.Cents {
//			return nil, ErrShort
//		}
//		return []event.Event{Posted{c.Account, -c.Cents}}, nil
//	}
//
// Context says which facts it depends on, a [Model] what they mean, Decide what
// follows. [Run] does the rest: it reads the context as of one moment, decides,
// and saves the events only if each observed query is still where it was and
// nothing was ever saved under the command's ID. On a conflict, and when an
// answer is lost, it reads again; what it finds under the ID is the answer.
//
//	out, err := command.Run(ctx, runner, id, Withdraw{"ada", 30})
//
// # The answer
//
// Every call ends as exactly one [Status]. Committed, Nothing and Refused are
// the domain's; Reused says that the ID was another command's; Contended,
// Unavailable and Failed say that nothing was applied by this call, ever;
// Unknown that it may have been, and that repeating with the same ID is safe.
// A repeat of a committed command gets the same events, the same position and
// the same state as the first time, rebuilt from the log, with Replayed set.
//
// # The ID
//
// [NewID] makes a fresh one, [KeyID] one from a caller's idempotency key. The
// same ID with another payload is refused: [ErrIDReused]. IDs are per boundary:
// who may choose raw IDs can ask for the answers of others, so take IDs of
// clients through KeyID with the tenant as scope.
//
// # Contexts
//
// [Model.History] folds all events of a query; [Model.Latest] the latest one
// alone, for events that carry the state they lead to. [Join] and [Each] put
// several together, each observed on its own; [Then] chooses a context by what
// another one shows; [Model.None] depends on nothing.
//
// # Refusals
//
// An error returned by Decide refuses the command, and errors.Is finds it in
// what Run returns. A refusal that is an event type too (it has EventType, and
// its type is in the codec) is recorded under the ID: a repeat gets the same
// one, whatever has changed since. Other refusals say only that the rule said
// no on the facts of that moment.
//
// # Limits
//
// While two versions of a Decide run side by side, only recorded refusals
// exclude the other's commit. A replayed state is today's fold of the old
// events. A log that was restored from a copy needs its processes restarted:
// they remember states. A command without contexts whose answer is lost stays
// unknown until its ID is seen.
package command
