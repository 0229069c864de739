// Package onchain has the types in which billing asks and providers answer what became of
// a payment on a chain. Neither of these rooms imports the other.
//
// Does not belong here: accounts, credit, the wire of payments.
package onchain
