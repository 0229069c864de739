// Package overspend measures how much a prepaid customer can get beyond the balance:
// upstreams that misstate the cost of an answer (liar.go) times clients that leave
// (leaver.go) times endpoints (endpoint.go). Each combination is a cell with an account of
// its own, a balance that is known, and ids under which the simulated upstream counts its
// real output and the caps of the requests. The report has the gateway's charge next to
// that count; the rest was lost by its operator.
//
// It drives any gateway by URL and key from outside (client.go writes HTTP itself, to
// control how sockets are closed). Books opens accounts and reads their balances.
package overspend
