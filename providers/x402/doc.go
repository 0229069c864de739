// Package x402 is the wire format of payments by wallets (addendum 14.3): the requirements
// of farebox, the reading of a signed payment, and the checks that need no network.
//
// [Terms] are the accepted networks, tokens, receivers and amounts, all from the
// config. They write the entries of a 402 answer ([Requirement], [Challenge]), and
// Read a payment's header in every shape that clients are known to send. Of a payment
// only the signed part counts; the rest is rebuilt in our own words. An [Order] is
// such a payment as it is sent to facilitators and looked for on chains.
//
// Below it: evm and svm read the payments of both families, facilitator asks the services
// that bring them onto a chain, chain asks RPC nodes, and chainclient joins these for
// billing/payment. Their answers are types of config/onchain.
//
// Out of scope: accounts, credit, requests.
package x402
