// Package billing is money and limits: it admits requests, holds money for them, charges
// them and keeps the books.
//
// [Ledger] owns everything. [Ledger.Lookup] finds a [Key] by its secret,
// [Ledger.Admit] checks rate windows, key limits and balance together and
// opens a [Hold]; the hold is extended, and settled or voided exactly once.
// A request buys lines of package money, which the journal and the store keep as they were
// sold; no report depends on the present type of a model.
//
// Everything that an operator does is an operation with a query of its own, such as
// [CreditAccount]; operation.go has the table. [Do] executes one on a Ledger, or through
// the control socket on that of a running server. [Accounts] is for the owners of accounts,
// [Wallets], [Payments], [Jobs], [Enclaves] and [Characters] are for the capabilities of
// those names: they hold the Ledger, which itself admits, holds, settles and closes.
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
// no money, and a node does not start with more (clock.go).
//
// Package replay remembers requests that carry an idempotency key, in files
// beside the journal or in Redis; [Hold.SettleKept] charges exactly those whose
// answer it keeps, also across a crash.
//
// [Ledger.Jobs] are orders that outlive their requests. One is charged if and only
// if its row is in the store, and given back if and only if it failed and was
// charged, in the currencies that paid it (jobs.go).
//
// The cost of a request beyond its possible charge is debt of its account
// (debt.go): outside of balances, limits and usage, paid before anything else.
//
// Out of scope: endpoints, HTTP, the form of requests and answers, and
// anything about upstreams. This room imports config and the rooms below it.
package billing
