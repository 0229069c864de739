// Package svm is the payment of Solana: a transaction that the payer signed and whose fee
// another account pays, which moves exactly that much of a token and has no other effect
// that costs money.
//
// [Parse] reads the wire form to its last byte and refuses every second spelling;
// [Transaction.Payment] checks it against the rules and gives its payment.
//
// Out of scope: requests, prices, nodes that are asked.
package svm
