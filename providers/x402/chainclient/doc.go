// Package chainclient answers questions about payments: it joins their terms, the
// facilitators that bring them onto a chain, and the RPC nodes that report their state. A
// [Client] belongs to one config. [Client.Try] makes a payment with it for an operator who
// checks a config.
//
// Out of scope: credit, requests.
package chainclient
