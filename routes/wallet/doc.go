// Package wallet is what wallets do with their ledger (interface.md, x402 wallet
// billing; addendum 14): they top it up with a signed payment (POST /x402/top-up), read
// what it has and what became of it (GET /x402/balance and /x402/transactions), and have
// its credit go to an account (POST /x402/link).
//
// Capability is what main registers. How a payment is read is decided in providers/x402,
// when it is credited in billing/payment, who signed in in the spine (routes/signin.go):
// here, these have answers.
//
// What may not enter: signatures, facilitators, chains, books.
package wallet
