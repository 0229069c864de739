// Package onchain has the types for questions of billing, and answers of providers, about a
// payment on a chain. Neither of these rooms imports the other.
//
// Out of scope: accounts, credit, the wire of payments.
package onchain
