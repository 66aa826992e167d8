// Package sqlitestore keeps event logs in a SQLite file: on a laptop, in tests,
// and in services that run on one machine. There is nothing to install and no
// server to run; what an append was answered to have saved survives kill -9 and
// power loss.
//
//	store, err := sqlitestore.Open("bank.db")
//	if err != nil {
//		log.Fatal(err) // says what to do
//	}
//	defer store.Close()
//	runner := command.NewRunner(store, command.Config{})
//
// # Several logs in a file
//
// A file holds any number of boundaries, each a log of its own:
//
//	payroll, err := sqlitestore.Config{Boundary: "payroll"}.Open("company.db")
//
// # Several processes on a file
//
// Processes on one machine may share a file; each is told of the others' commits
// within a few milliseconds. So may Stores in one process: they share a writer.
// The file must lie on a local disk: file systems of a network have no locks that
// can be trusted. For more than one machine there are other stores.
//
// # How appends are saved
//
// One goroutine per file and process writes. While it commits and waits for the
// disk, other appends come to wait, and all of them go into its next transaction:
// the more there are at once, the more share a sync. Nobody waits for a group to
// fill, and a single append is as fast as the disk. Every answer, of a conflict
// too, is given after the commit. If a group fails for want of room, its appends
// are tried again one by one, so that a big one does not fail the others.
//
// An append whose context ends while it waits for its turn is taken back and is
// [eventstore.NotApplied]. Once its transaction has begun it is
// [eventstore.Ambiguous], as is an error of the disk during the commit itself. A
// full disk, a lock that another process does not give back ([ErrLocked]), are
// NotApplied: nothing is lost, and the store goes on by itself when the cause is
// gone. A damaged, replaced or read-only file is [eventstore.Permanent].
//
// # How queries find events
//
// Every event stands in an index under its type, its event_id and each top-level
// string of its data, whatever is queried today. A query costs what it finds, not
// what the log holds: criteria that are joined by AND leap over each other's
// gaps, so that a common key beside a rare one is cheap.
//
// # The file
//
// While the file is open, SQLite keeps two more beside it, -wal and -shm. They
// are part of it: a backup is made by SQLite, not by copying files,
//
//	sqlite3 bank.db ".backup copy.db"
//
// and no other program should open the file in another way than through SQLite.
// To look at a log is no harm:
//
//	sqlite3 -readonly bank.db "SELECT pos, type, data FROM event"
//
// A file that a newer version of this package has changed is refused by an older
// one, also while it is open.
package sqlitestore
