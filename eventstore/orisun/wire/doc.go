// Package wire is Orisun's gRPC interface, as far as this module uses it. It is
// generated from orisun.proto, which is written for this module: names and
// numbers are the servers', everything else is in our words.
//
// To generate it again after a change of orisun.proto (this needs the network,
// and no protoc):
//
//	go generate ./eventstore/orisun/wire
//
// Programs use packages orisun and orisuntest instead.
package wire

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate
