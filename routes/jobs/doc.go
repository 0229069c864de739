// Package jobs serves what is made in the background: music (addendum 9) and videos
// (addendum 10). /audio/quote and /video/quote say what a job would cost, …/queue sells
// it, …/retrieve asks after it and fetches its result, and …/complete lets it go.
//
// [Capability] is what main registers. kind.go has the endpoints, and a kind has its rules,
// prices and answers in the files of its name. Bodies are checked by the rules of the
// specification, then by what the model takes; what clients give to be seen or heard is
// measured by providers/video where its length is sold or bounded, and links are let
// through to upstreams only where they lead to the public internet.
//
// What may not enter: how jobs are driven (billing/job) and what upstreams speak
// (providers/queue).
package jobs
