// Package rpc tests blockchain calls: batches, caches, credits and daily credits,
// idempotency, nodes that fail, lag, lie or are of another chain, and real nodes
// with the clients that people use.
//
// Its set-up is the chain: a gateway before simulated nodes, and a key.
package rpc
