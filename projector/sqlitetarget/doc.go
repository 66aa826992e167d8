// Package sqlitetarget keeps a read model in a SQLite file, together with what
// its projectors know: how far they are, and what stands in their way.
//
// The model is tables of yours. A handler writes to them with the [Tx] that it
// is given:
//
//	model, err := sqlitetarget.Open("balances.db", `CREATE TABLE balance (account TEXT PRIMARY KEY, cents INTEGER)`)
//	…
//	balances := projector.New(store, model, projector.Config{Name: "balances", Events: events},
//		func(_ context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
//			if e, ok := d.Event.(Posted); ok {
//				return tx.Exec(`INSERT INTO balance VALUES (?1, ?2) ON CONFLICT DO UPDATE SET cents = cents + ?2`, e.Account, e.Cents)
//			}
//			return nil
//		})
//
// # What it promises
//
// Each event changes the model exactly once. What the handlers of a batch wrote,
// the marks of done events and the checkpoint are committed in one transaction,
// synced to the disk, or not at all, whenever the process dies. So a handler may
// add to what is there, as above. That holds for what is written through the Tx;
// nothing else that a handler does can be taken back.
//
// # Reading the model
//
// [Target.Read] runs queries, all as of one moment, beside the writer and never
// held up by it:
//
//	err := model.Read(ctx, func(tx *sqlitetarget.Tx) error {
//		row, found, err := tx.First(`SELECT cents FROM balance WHERE account = ?1`, "ada")
//		if found {
//			err = row.Scan(&cents)
//		}
//		return err
//	})
//
// Other programs may read the file too, with Open without scripts, or with any
// SQLite library. They must not write to it.
//
// # Changing the model
//
// The scripts given to [Open] run once each, in order; add one to change the
// tables of a released program. To build the model anew, while the one that is
// there goes on being read and written, use [projector.Rebuild].
//
// # Parked events
//
// Events that were put aside ([projector.Park]) lie in the same file, whole, and
// are committed with the model and the checkpoint. They stay when they are
// settled, with the reason and the time. Whoever may open the file, a tool
// without a projector too, lists them ([Target.Parked]) and leaves words for the
// worker ([Target.Ask]), who sees them within some milliseconds. While something
// is parked each event costs a look into memory, with more than 1000 parked
// events one into the file.
//
// # Generations
//
// A new generation of the model ([Target.Next]) is a file beside this one:
// balances.db-gen-2. One row of the file that was given to Open, the base, says
// which generation is live, and every Target follows it: what begins after a
// switch works on the new one, a Read that is under way keeps its own. So the
// base stays, and is opened, also when its own tables are no longer needed;
// [Target.Drop] removes those, and the files of other old generations. Back up
// the base and the -gen- files together. To give it all up, delete them all
// (with their -wal and -shm) while no program has them open.
//
// A program whose tables are others now builds them with [Config].NextOnly, and
// is opened as usual after the switch.
//
// # Several processes
//
// Any number of processes may open the file, on one machine. Each name has one
// worker at a time; the others stand by. They take over at once when the worker
// ends or dies: each process with claims holds a lock on a file of its own beside
// the model, which the system takes from it when it is gone. A process that stands
// still keeps its names for its lease of 10 s (see [Config]), by the machine's
// clock; when it wakes up, whatever it tries is refused.
//
// SQLite has one writer per file, so events are applied one after the other: a
// [projector.Config] with Lanes is refused. Batches of several projectors on one file take
// turns, and a process that stands still in the middle of a batch keeps that
// file from being written until it wakes up or is killed; it can still be read.
// So give each model, or each group of models that are written together, a file
// of its own. The event log is always another file.
package sqlitetarget
