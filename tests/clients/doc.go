// Package clients runs the packages that people use, as the registries have them,
// against farebox: openai-go in the test's own process, the others by their own
// test runners in bench/clients, and recounts the money after each.
//
// Packages that make pictures, sign with wallets or speak to blockchains run with
// the tests of their subject.
package clients
