// Package compare measures gateways side by side in one run: direct to the
// simulated upstream, a bare fasthttp relay, nginx and farebox, in interleaved
// rounds, each gateway alone on one processor, load and upstream on another.
// It prints medians, their ratios to nginx and whether the goals are met.
//
// Ratios of one run are the product of this room: absolute figures move with
// the machine, CPU per operation relative to nginx does not.
//
// Main types: Options, Comparison, Scenario, Rate, Memory, Goal, Rival. The
// gateways' command lines live in one file each (farebox.go, nginx.go, relay.go,
// bench/rivals/NAME/run).
package compare
