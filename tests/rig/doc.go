// Package rig runs farebox for the tests beside it: the real binary, its command
// line, its sockets and its store, as a user meets them.
//
// [StartGateway] starts a [Gateway] and ends it with the test; Post, Get, Open and
// Must call it, CLI is its operator, Log, Banner and Metric are its output.
// [StartUpstream] is a simulated upstream that knows the truth, [StartRaw] one
// that answers with bytes as they are, [StartCluster] several nodes on one
// PostgreSQL and one Redis. [Main] is the TestMain of each package. A [Hider]
// writes bodies that servers may read in several ways, and [Hidden] compares the
// upstream's reading with the charge.
//
// Assertions stay with their subject, and so does a config or a set-up that only one
// subject has. No test of the product's parts comes here, and nothing of the product is
// linked but the readers of config and money.
package rig
