// Package facilitator is the client of services that bring signed payments onto a chain: it
// verifies, settles and lists support. A [Set] is all of a config, in its order.
//
// Their answers are hints. An answer is read by its members whatever its status, and an
// unclear one counts as not known: the payment may still be made.
//
// Out of scope: chains, credit, texts of clients.
package facilitator
