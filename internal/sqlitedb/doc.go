// Package sqlitedb is what the packages of this module that keep a SQLite file
// share: connections with the same settings, schema versions, errors to branch
// on, waiting for locks, and a lock that shows whether a process lives.
//
// Database files are only ever touched through SQLite and os.Stat: on POSIX
// systems, closing any descriptor of a file drops all locks that the process
// holds on it, so an os.Open of a database would break SQLite's locking.
package sqlitedb
