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
// tables of a released program. To build the model anew instead, delete the file
// (with its -wal and -shm) while no program has it open.
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
// SQLite has one writer per file. Batches of several projectors on one file take
// turns, and a process that stands still in the middle of a batch keeps that
// file from being written until it wakes up or is killed; it can still be read.
// So give each model, or each group of models that are written together, a file
// of its own. The event log is always another file.
package sqlitetarget
