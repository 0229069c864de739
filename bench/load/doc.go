// Package load sends chat requests at a constant arrival rate or as fast as a
// number of connections allows, and measures answers as a client of a gateway sees them.
//
// The open mode is an open model: arrivals come from a timer that knows nothing
// of the answers, and latency counts from the moment a request should have
// been sent. A server that stalls therefore shows in every request that had to
// wait for it (no coordinated omission). Latency, time to first event, gap
// between events and the events' way from the simulated upstream go into HDR
// histograms; CPU and memory of the server's processes are read from /proc.
//
// Main types: Options, Result, Distribution, Processes. The HTTP client is its
// own because the usual ones would cost more CPU than the gateway under test.
package load
