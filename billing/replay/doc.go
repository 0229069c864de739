// Package replay remembers requests that carry an Idempotency-Key, so that what
// is asked twice is carried out and charged once.
//
// [Keys.Begin] takes a [Claim] and gives the [Answer] of the first request with
// this key, or a [Lead]: the right and the duty to carry the request out, which
// ends in [Lead.Keep] or [Lead.Forget]. Answers are kept in files beside the
// journal (files.go), or in Redis when the nodes share one (redis.go).
//
// It knows nothing of what is asked, so that any endpoint can use it, and of
// money only the number of a hold: a kept answer says that this hold is charged
// (billing's Hold.SettleKept tells how that survives kill -9).
//
// What may not enter: endpoints, HTTP, accounts and prices. It imports config,
// billing/dial and billing/disk.
package replay
