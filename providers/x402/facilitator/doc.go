// Package facilitator asks those who bring signed payments onto a chain: whether they
// would, that they do, and what they support. A [Set] is all of a config, in its order.
//
// What they say is a hint. An answer is read by its members whatever its status, and
// what is not said clearly counts as not known: the payment may still be made.
//
// Out of scope: chains, credit, what clients wrote.
package facilitator
