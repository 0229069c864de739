// Package rpc is the dialect of blockchain nodes: JSON-RPC 2.0 over HTTP,
// single and in batches (interface.md, Crypto proxy; addendum 13).
//
// A [Request] is scanned once, without allocating, and refused where two JSON parsers could read
// it differently: a node must run the calls that were priced. [Method] tables have the methods
// of a family of chains, the price of each and whether it may be repeated. A safe body goes to
// the node unchanged, under ids of ours (ids.go); any other is rebuilt from its parts
// (rebuild.go). A [Judge] reads answers while they stream and finds their ids, verdicts and
// ends; the answers of a batch are put back into the order of its calls. [Classify] tells a
// node's answer from a node that is busy, broken or without the method. A [Network] has the
// upstreams of one chain with their weights, healths, heads and learned refusals; one that keeps
// answers has a cache for those that cannot change (cache.go). The gateway's own calls go to one
// node each (Witnesses, [Node.Call]).
//
// Out of scope: money, keys and clients' connections.
package rpc
