// Package sqlitestore keeps event logs in a SQLite file.
package sqlitestore
