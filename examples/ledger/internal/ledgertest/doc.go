// Package ledgertest says what the ledger has to answer: a plain model of its
// rules that runs one command after the other in memory, and files of commands
// to try both on. It shares no code with the ledger.
package ledgertest
