// Package tee shows what enclaves prove (interface.md, TEE; addendum 15): their reports
// with our verdict beside them, and their signatures over answers. It is routes.Enclaves
// for chats, too.
//
// A report and a signature go out as their enclave wrote them, since what we claim must
// be checkable from what we relay; members of ours stand beside them. Nothing of a
// quote, a key or a hash is in a log or a metric.
package tee
