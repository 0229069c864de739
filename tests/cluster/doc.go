// Package cluster tests several farebox processes on one PostgreSQL and one Redis. Nodes
// are killed, the store and Redis go away and come back, clocks are apart: no money is
// lost or doubled, and limits hold over all nodes.
//
// State of a single subject that nodes share (keys, idempotency, blockchain calls) is
// tested with that subject.
package cluster
