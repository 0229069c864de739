// Package wallet tests wallets' requests to a running farebox: pay by x402, sign in,
// spend, and read their ledger. Chains and facilitators are simulated
// (bench/upstream/chain) and lie, or are real ones with the packages of npm.
package wallet
