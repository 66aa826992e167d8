// Package commandtest tests commands without a store of one's own: given some
// events, when a command is decided, then these events, or this refusal.
//
//	given := commandtest.Given(t, Opened{"ada"}, Posted{"ada", 50})
//	commandtest.When(given, Withdraw{"ada", 30}).Then(Posted{"ada", -30})
//	commandtest.When(given, Withdraw{"ada", 80}).ThenRefused(ErrShort)
//
// The given events pass through the codec and are selected by the command's
// own queries, so a query that meets too little shows. Beside what the test
// asks for, [When] reports a Decide or Evolve that is not pure, and an event
// that the codec does not keep.
package commandtest
