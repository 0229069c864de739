// Package attack measures the harm that clients with and without keys can do to others: it
// sends ordinary customers' requests (customer.go) first alone and then beside rounds of
// attack (round.go), each at a stated rate, and counts how many of the ordinary ones were
// answered, rightly, and how fast.
//
// It drives any gateway by URL and keys, whose only upstream is the simulated one: the text
// of the rounds' requests makes that misbehave. Rates, sockets and time are bounded, and
// only this machine is attacked unless the caller says that it owns the gateway.
package attack
