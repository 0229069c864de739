// Package report answers questions about what was used and what is left, from
// the store.
//
// [Account] is for customers: single charges as [Entry], by numbered pages or by
// cursor ([Account.List], [Account.History]), sums for charts
// ([Account.Analytics]) and the balance ([Account.Balance]). [Reports.Sum] is for
// operators. All that a report shows is one state of the store; [Newest] brings
// there first what was settled just now.
//
// What may not enter: anything that writes, HTTP, and what a model is now:
// reports go by what was booked. It imports calendar, money, journal
// and store.
package report
