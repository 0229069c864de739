// Package queue is what upstreams speak that take a job and make something of it in
// their own time: tracks and videos. An [Order] is the job in our own terms, a
// [Dialect] puts it to one kind of upstream, asks how it stands, has it cancelled and
// says where its result is; [Engine] carries out what a dialect wants done, and is what
// drives the jobs of billing/job at their upstreams.
//
// What upstreams name is not believed: the addresses of status and cancellation stay on
// the target's host, results are fetched through the guard of providers/fetch and are
// never shown our credentials.
//
// Each dialect is a folder below this one. What may not enter: money, limits, the
// validation of requests, and the form of answers.
package queue
