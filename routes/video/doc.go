// Package video serves models of videos (addendum 10): /video/quote says what a video
// would cost, /video/queue sells it as a job, /video/retrieve asks after it and fetches
// it, and /video/complete lets it go.
//
// [Capability] is what main registers. Bodies are checked by the rules of the
// specification, then by what the model takes; what clients give to be seen or heard is
// measured by providers/video where its length is sold or bounded, and links are let
// through to upstreams only where they lead to the public internet.
//
// What may not enter: how jobs are driven (billing/job) and what upstreams speak
// (providers/queue).
package video
