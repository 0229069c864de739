// Package security tests attacks on other customers: attacks that take service away,
// uploads and readers that stall, addresses that try keys, answers that stray to another
// connection. It also tests that SECURITY.md promises nothing without a test.
//
// Money that is got for nothing is the subject of tests/billing.
package security
