// Package rpc sells calls to blockchain nodes: POST /crypto/rpc/{network} takes one
// JSON-RPC request or a batch, and GET /crypto/rpc/networks lists the networks.
//
// Capability is what main registers; its view is what one config sells,
// a request is the part of a Call: it reads the envelope, says what the calls cost
// in credits and has the nodes asked. What nodes are, how one is chosen and how
// their answers are judged and cached is in providers/rpc.
//
// Balances, limits, retries and the request log belong to routes and to the packages
// below it. Nothing of another capability may enter.
package rpc
