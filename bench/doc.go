// Package bench measures the gateway: it is the command line of the simulated upstream
// (bench/upstream), the load generator (bench/load), the side-by-side comparison
// (bench/compare, with bench/relay as its floor), the driver of mixed traffic whose bill is
// known to the token (bench/mixed), and the report (bench/report).
//
// It drives the gateway from outside and imports none of its packages: a gateway that
// measures itself proves nothing. This package itself has only wiring and texts for the
// terminal.
package bench
