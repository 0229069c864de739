// Package wallet serves the ledgers of wallets (interface.md, x402 wallet billing; addendum
// 14): a top-up with a signed payment (POST /x402/top-up), the balance and its history (GET
// /x402/balance and /x402/transactions), and the link to an account (POST /x402/link).
//
// It writes the answers. Package providers/x402 reads payments, billing/payment credits them,
// and routes/signin.go checks signatures: sign-ins and answers of 402 belong to all routes.
//
// Out of scope: signatures, facilitators, chains, books.
package wallet
