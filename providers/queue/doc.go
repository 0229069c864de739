// Package queue is the dialects of upstreams that take a job and finish it in their own
// time: tracks and videos. An [Order] is the job in our own terms, a [Dialect] puts it to
// one kind of upstream, polls its status, cancels it and finds its result; [Engine] carries
// out the requests of a dialect, and drives the jobs of billing/job at their upstreams.
//
// Links from upstreams are not trusted: the addresses of status and cancellation stay on
// the target's host, and results are fetched through the guard of providers/fetch, without
// our credentials.
//
// Each dialect is a folder below this one. Out of scope: money, limits, the
// validation of requests, and the form of answers.
package queue
