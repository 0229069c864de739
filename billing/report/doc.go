// Package report answers questions about usage and balances, from the store.
//
// [Account] is for customers: single charges as [Entry], by numbered pages or by
// cursor ([Account.List], [Account.History]), sums for charts
// ([Account.Analytics]) and the balance ([Account.Balance]). [Reports.Sum] is for
// operators. All that a report shows is one state of the store; [Newest] brings
// there first the latest settlements.
//
// Out of scope: anything that writes, HTTP, and a model's present state:
// reports go by the bookings. It imports calendar, money, journal and store.
package report
