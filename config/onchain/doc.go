// Package onchain has the types for questions of billing, and answers of providers, about a
// payment on a chain. Neither of these rooms imports the other.
//
// Does not belong here: accounts, credit, the wire of payments.
package onchain
