// Package onchain has the types in which billing asks and providers answer what became of
// a payment on a chain. Neither of these rooms imports the other.
//
// What may not enter: accounts, credit, the wire of payments.
package onchain
