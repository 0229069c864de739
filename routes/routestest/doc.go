// Package routestest starts a gateway with some capabilities on a socket, before an
// upstream of the test, for the tests of the spine and of each capability. Only
// tests import it.
//
// A Rig is such a gateway, with an account that has money and a key; Caller is a
// client and an upstream that allocate nothing, for counts of allocations; Edges holds the issues
// of endpoints about a body against the rules of their rows. Tests
// of the whole program, with its config file and its store, are in farebox/tests.
package routestest
