// Package video tests models of videos: what quotes say and jobs cost, the whole life of
// a job at each kind of upstream, what is refused, and links for one download.
//
// Its upstream is the simulated one of bench/upstream, which makes real films of an
// exact length and misbehaves on request.
package video
