// Package billing is money and limits: who may send a request, what is held
// for it, what it cost in the end, and where that is written down.
//
// [Ledger] owns everything. [Ledger.Lookup] finds a [Key] by its secret,
// [Ledger.Admit] checks rate windows, key limits and balance together and
// opens a [Hold]; the hold is extended, and settled or voided exactly once.
// What a request bought is lines of package money, in the journal and in the
// store as it was sold; no report asks what a model is now. Operators change
// accounts, keys and credit through [Operator], in the process or through the
// control socket.
//
// The hot path touches memory and one append to the journal (package journal), a
// shared mapping that survives kill -9. The projector (projector.go) applies
// the synced part of the journal to the [store.Store] in batches under a cursor, so
// that every record counts exactly once. [Ledger.Audit] recounts it all.
//
// With a Redis in the config the rate limits hold over all nodes together
// ([limits.Limits]); it never has money.
//
// On a store that nodes share its clock decides days, periods and every time
// that is written (Ledger.now); Redis's decides the windows that it keeps; a
// node's own only measures. Clocks that are some minutes apart cost no limit and
// no money, and a node does not start with more (clockskew.go).
//
// Package replay remembers requests that carry an idempotency key, in files
// beside the journal or in Redis; [Hold.SettleKept] charges exactly those whose
// answer it keeps, also across a crash.
//
// [Ledger.Jobs] are orders that outlive their requests. One is charged if and only
// if its row is in the store, and given back if and only if it failed and was
// charged, in the currencies that paid it (jobs.go).
//
// What a request cost beyond what could be charged is debt of its account
// (debt.go): outside of balances, limits and usage, paid before anything else.
//
// What may not enter: endpoints, HTTP, the form of requests and answers, and
// anything about upstreams. This room imports config and the rooms below it.
package billing
