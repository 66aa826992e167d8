//go:build race

package command_test

// The race detector makes the simulation slower: fewer commands then.
func init() { simDefault = 40_000 }
