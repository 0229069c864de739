// Package replay remembers requests that carry an Idempotency-Key, so that a
// repeated request is carried out and charged once.
//
// [Keys.Begin] takes a [Claim] and gives the [Answer] of the first request with
// this key, or a [Lead]. It writes nothing, since the request may yet be refused.
// An admitted one claims its key with [Lead.Claim], and ends in [Lead.Keep], [Lead.Forget]
// or, where it may have changed something outside, [Lead.Doubt]. Answers are kept in files beside the journal (files.go), or in
// Redis when the nodes share one (redis.go). Keys and bytes are shared by owner
// (package fair, shares.go).
//
// The files are our own, not bbolt: a record is one write without an fsync of its
// own, the expiry of an hour is an unlink, and the index has no pointers for the
// garbage collector to follow. bbolt writes pages and an fsync for each
// transaction, and has to delete expired keys one by one.
//
// [Values] keeps small texts in stores of the same kind, which clients may name later:
// for a window, with files and shares of their own, sealed for one account.
//
// It knows nothing of a request's meaning, so that any endpoint can use it, and of
// money only the number of a hold: a kept answer says that this hold is charged
// (billing's Hold.SettleKept tells how that survives kill -9).
//
// Out of scope: endpoints, HTTP, accounts and prices. It imports config,
// config/fair, billing/dial and billing/disk.
package replay
