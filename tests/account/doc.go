// Package account tests accounts as customers see and change them: keys, the limits and
// the use of each, keys that wallets make for themselves, and an operator's commands for
// all of them. It starts farebox with
// [rig.PrepaidConfig], and a cluster where a change must arrive on another node.
//
// The prices of requests are the subject of tests/billing.
package account
