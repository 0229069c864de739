// Package ledger tries to lose or double a charge: it kills farebox under load on either
// store, fills its disk, mixes every kind of request, and compares the ledger with the
// upstream's own count.
//
// The charge of a single request is the subject of tests/billing.
package ledger
