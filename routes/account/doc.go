// Package account is what customers do with their account: they make, list and
// change its API keys (/api_keys), also by the signature of a wallet
// (/api_keys/generate_web3_key), and read what it has, spent and may spend
// (/billing, /api_keys/rate_limits).
//
// Capability is what main registers. Bodies about keys are read by keyBook, of
// which each operation takes a part; queries by the Params of their row. What is
// booked and how it is summed up is decided in billing, and nothing here is
// sold: no quote, no hold, no upstream.
package account
