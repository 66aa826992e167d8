// Package ccc is the root of a framework for command handlers that stay right
// under retries, races, crashes and lost answers: Command Context Consistency.
// It holds no code; begin with one of these:
//
//   - command: write commands, run them ([github.com/cccgo/ccc/command])
//   - event: the facts they write, and how facts are stored
//   - projector: read models that follow the log
//   - eventstore: the log itself; eventstore/sqlitestore is the embedded one
//   - command/commandtest: given, when, then
//
// README.md has the whole of a first program, docs/ the rest.
package ccc
