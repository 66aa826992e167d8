// Package projector keeps read models up to date from an event log, so that
// each event changes the model exactly once, in order, whatever crashes, and
// nothing is passed over in silence.
//
// # A first read model
//
// Facts are spread over a log; a page of a program wants a table. A projector
// is a function from one event to a change of that table, and a name:
//
//	model := memtarget.New[int64]()
//	balances := projector.New(store, model, projector.Config{Name: "balances", Events: events},
//		func(_ context.Context, tx *memtarget.Tx[int64], d projector.Delivery) error {
//			if e, ok := d.Event.(Posted); ok {
//				was, _ := tx.Get(e.Account)
//				tx.Put(e.Account, was+e.Cents)
//			}
//			return nil
//		})
//	go func() { log.Print(balances.Run(ctx)) }()
//
// Run reads the log in pages, applies the events in short transactions, and
// stores with each of them how far it came: the checkpoint is never ahead of its
// effect, nor behind. It waits where the log ends, and returns nil when ctx does.
//
// # Reading your own writes
//
// The model is a moment behind the log. Who has just written and wants to read
// waits for the position of the command's outcome:
//
//	out, err := command.Run(ctx, runner, id, Withdraw{"ada", 30})
//	…
//	err = balances.WaitFor(ctx, out.Position)
//
// [Projector.Lag] says how far behind it is.
//
// # More than one replica
//
// Call Run on every replica. For a target that they share, one is active by a
// lease and the others stand by: they take over at once after a clean stop, and
// after about one lease when the active one freezes. What protects the model is
// not the lease but the epoch, a number that grows with each claim and is held
// in each transaction: a worker that wakes up too late changes nothing. WaitFor
// reads the target, so it works on all of them.
//
// # When an event cannot be applied
//
// A handler that returns an error or panics leaves nothing behind. The events
// before it are applied, and it is tried alone, with growing pauses in between;
// after [Policy.Attempts] it is as [Config.Failures] says. By default the
// projector halts there: it keeps its name, tries again slowly, tells its log
// once per interval, and WaitFor answers [ErrHalted] with the reason. As soon as
// the event can be applied, by a corrected program or because what it needs is
// back, all goes on, at once after [Projector.Resume].
//
// Or the event is parked, in order: later events that have a key in common with it
// wait behind it, others go on.
//
//	cfg.Keys = projector.DataKeys("accountId")
//	cfg.Failures.Then = projector.Park
//
// [Projector.Parked] lists what waits, [Projector.Retry] and [Projector.Discard]
// say what is to become of it. WaitFor knows of it: a position that is reached
// while something up to it is parked is [ErrParked], and with keys it asks only
// for what has one of them.
//
// # Many events at a time
//
// With [Config.Lanes] events are applied side by side, in order within each key,
// where the target can do that ([LaneTarget]).
//
// # A model made anew
//
// [Rebuild] makes the model of a target anew beside the live one, compares the
// two, and switches in one step. Handlers see it by [Delivery.Replay]: what goes
// beyond the model must not be done again.
//
// # An event that leads to a command
//
// Package reaction runs a command for an event, once, however often the event is
// delivered.
//
// # Is it well
//
// [Projector.Lag] says how far behind the model is, [Projector.Health] what that
// means and what is in the way. Both look at the log and the target, so any
// replica answers.
//
// # A log under a model that is not its own
//
// Beside the checkpoint stands the event_id there. A log that was deleted,
// exchanged or restored from an older backup is [ErrForeignLog] before a single
// event is applied; [Projector.Check] asks for it without starting.
//
// # Other places for a model
//
// A [Target] is where the model is, and its [Promise] says how often an effect is
// there. Package sqlitetarget keeps it in a SQLite file, memtarget in memory;
// effecttarget is for what is no database of yours: mails, an index, a cache.
// Package targettest tests yours.
package projector
