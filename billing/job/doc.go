// Package job is work that outlives its request: the kinds of config.JobKinds, which clients
// queue, ask after and fetch. A job is a row of the store (store.JobRow) before its
// client gets its id, and is charged if and only if that row exists; a failed job is
// refunded, once.
//
// [Machine] drives the jobs that its node owns: it polls upstreams ([Maker]) in the
// rhythm of one scheduler, has their media kept ([Keeper]), and takes over the jobs
// of nodes that died. Every step is written down before the next one is taken, so that
// a process may die between any two of them.
//
// Out of scope: endpoints, the form of answers, and dialects of upstreams.
package job
