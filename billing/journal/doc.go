// Package journal is the book of original entry of one node: every hold and
// every charge, in the order in which they happened.
//
// [Journal.Append] copies a [Record] into a segment, a preallocated file in a
// shared mapping, which survives kill -9 without a system call; a syncer puts
// it on disk some milliseconds later. [Survey] looks at the journal of an
// earlier process, [Reader] goes through the records up to a sequence, and a
// [Page] packs the charges of one account for the store. [Record.Spread] divides
// a charge among the currencies that paid it.
//
// Out of scope: balances, limits and SQL. This package imports money and
// disk; others decide who applies the records, and when a segment may go.
package journal
