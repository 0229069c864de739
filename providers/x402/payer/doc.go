// Package payer signs payments as wallets do, for the operator's own test of a config
// (farebox x402 test) and for tests.
//
// Out of scope: any decision about a payment.
package payer
