// Package jobs serves media that are made in the background: music (addendum 9) and videos
// (addendum 10). /audio/quote and /video/quote give the price of a job, …/queue sells it,
// …/retrieve asks after it and fetches its result, and …/complete lets it go.
//
// [Capability] is the type that main registers. kind.go has the endpoints, and a kind has its
// rules, prices and answers in the files of its name. Bodies are checked by the rules of the
// specification, then by the model's constraints; input media are measured by providers/video
// where their length is sold or bounded, and links are let through to upstreams only where they
// lead to the public internet.
//
// Out of scope: how jobs are driven (billing/job) and the wire of upstreams
// (providers/queue).
package jobs
