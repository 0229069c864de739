// Package wallet tests what wallets may do with a farebox that runs: pay by x402, sign
// in, spend, and read their ledger, before chains and facilitators that are simulated
// (bench/upstream/chain) and lie, and before real ones with the packages of npm.
package wallet
