// Package overspend asks what a prepaid customer can get for more money than
// he has: upstreams that lie about what an answer costs (liar.go) times clients
// that leave (leaver.go) times endpoints (endpoint.go). Each combination is a
// cell with an account of its own, a balance that is known, and ids under which
// the simulated upstream counts what was really made and with which cap it was
// asked. What the gateway charged is next to that count; the rest was lost
// by its operator.
//
// It drives any gateway by URL and key from outside (client.go writes HTTP
// itself, because leaving is a matter of sockets). Books is how it gets
// accounts and reads what is left on them.
package overspend
