// Package rpc sells calls to blockchain nodes: POST /crypto/rpc/{network} takes one
// JSON-RPC request or a batch, and GET /crypto/rpc/networks lists the networks.
//
// Capability is the type that main registers; its view is the part of one config, a request is
// the part of a Call: it reads the envelope, prices the calls in credits and has the nodes asked.
// Nodes, how one is chosen and how their answers are judged and cached are in providers/rpc.
//
// Balances, limits, retries and the request log belong to routes and to the packages
// below it. Nothing of another capability may enter.
package rpc
