// Package mixed sends mixed requests through a gateway and knows, from the requests alone,
// how many tokens each of them must be billed: whole answers, streams, streams without
// usage, clients that leave after an exact number of tokens, cut streams, upstream errors,
// embeddings.
//
// The upstream must be the simulated one (bench/upstream), whose scenarios are
// put into the prompts. After a run three counts must agree: Truth here, the
// upstream's Stats, and the gateway's ledger. Main types: Options, Truth.
package mixed
