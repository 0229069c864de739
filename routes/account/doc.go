// Package account serves customers their accounts: they make, list and change API keys
// (/api_keys), also by the signature of a wallet (/api_keys/generate_web3_key), and read
// balances, spending and limits (/billing, /api_keys/rate_limits).
//
// Capability is the type that main registers. Bodies about keys are read by keyBook, of which
// each operation takes a part; queries by the Params of their row. Charges and their sums are
// decided in billing, and nothing here is sold: no quote, no hold, no upstream.
package account
