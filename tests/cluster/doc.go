// Package cluster tests several farebox processes on one PostgreSQL and one Redis:
// nodes are killed, the store and Redis go away and come back, clocks are apart,
// and still no money is lost or doubled and limits hold over all nodes.
//
// What a single subject shares between nodes (keys, idempotency, blockchain calls)
// is tested with that subject.
package cluster
