// Package orisuntest is an Orisun server in the process, for tests of programs
// that use package orisun: real gRPC on a loopback port, events in memory.
//
//	server, err := orisuntest.Start(orisuntest.Config{Boundaries: []string{"bank"}})
//	defer server.Close()
//	store, err := orisun.Open(ctx, server.DSN("bank"))
//
// It behaves as servers 0.10 or 0.14 do, their traps included: 0.10 has no
// SaveEventsV2, passes numbers through float64 and answers data with the key
// eventType in it; both write data anew with sorted keys, take an event_id twice, and save
// unconditionally where no query is sent.
//
// What goes wrong on the way is made with package storefault (lost answers,
// late landing, a second copy), which is under each boundary, and with the
// methods of [Server]: connections that are cut, answers of every code,
// ascending reads that lag, streams that drop what they should send.
package orisuntest
