// Package video tests models of videos: quotes, the prices of jobs, and the whole life of a job at each kind
// of upstream. It also tests refusals, links for one download, and transcriptions of videos on the web.
//
// Its upstream is the simulated one of bench/upstream, which makes real films of an
// exact length and misbehaves on request.
package video
