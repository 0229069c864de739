// Package ledger tries to lose or double a charge: it kills farebox under load on
// either store, fills its disk, mixes every kind of request, and compares the
// ledger with what the upstream says it produced.
//
// What a request must cost is the subject of tests/billing.
package ledger
