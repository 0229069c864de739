// Package operator serves the operators' API below /operator/v1, on a listener of its own.
//
// Its table is [billing.Operations] and a few rows about this process. A call passes, in this order: the host that it
// names, the operator behind it, the row and its right, the header that pages of browsers cannot send, its query. Then
// the ledger carries it out. No customer's key is known here, and no row of this table is on the customers' listener.
//
// Out of scope: decisions about money, and the API of customers.
package operator
