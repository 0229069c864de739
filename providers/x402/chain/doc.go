// Package chain asks nodes for the outcome of a payment. A [Chain] is one network that
// payments are taken on, with the nodes of `rpc:` as its witnesses: each one is asked for a
// view of its own, and a view counts once as many nodes as the operator wants agree on it.
// A node that lies, lags, hangs or answers without end costs bounded time and memory, and
// decides nothing by itself.
//
// Other transfers to pay_to are listed by one node, and proven by all witnesses before they
// are credited.
//
// Nodes that are on another chain, or whose token is another one, are not witnesses.
//
// Out of scope: facilitators, credit.
package chain
