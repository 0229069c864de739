// Package account tests what customers see and change of their account: its keys,
// the limits and the use of each, keys that wallets make for themselves, and what
// an operator does to all of them from the command line. It starts farebox with
// [rig.PrepaidConfig], and a cluster where a change must arrive on another node.
//
// What requests cost is the subject of tests/billing.
package account
