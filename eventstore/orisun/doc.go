// Package orisun is an event store on an Orisun cluster, servers 0.10 to 0.14,
// over gRPC: for services that run on more than one machine.
//
//	store, err := orisun.Open(ctx, "orisun://user:password@events:5005/bank")
//
// Before the first start the boundary and its indexes have to be there:
//
//	config, err := orisun.ParseDSN(dsn)
//	config.Keys = codec.Keys()
//	err = config.Setup(ctx) // needs a user with the role ADMIN
//
// Open learns what the server can do. From 0.11 on, a save carries all its
// observations (SaveEventsV2); 0.10 takes one query, and this package then asks
// once more where that alone would not be exact (docs/decisions/0010).
//
// What differs from the other stores: numbers in event data that float64 does
// not hold exactly are refused, since 0.10 changes them in silence; an
// observation of every event is refused, name its types; a server stores an
// event_id twice, so uniqueness comes from observing commandId, as commands do.
//
// Package orisuntest is a server in the process, for tests.
package orisun
