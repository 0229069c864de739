// Package store keeps what must outlive the process: accounts, keys, balances,
// double entry, usage, jobs, cloned voices. [Store] is what a ledger asks of it,
// [Shared] what several nodes ask besides; [OpenSQLite] and [OpenPostgres] open the
// two engines, which have one schema (schema.go, with every migration) and one set
// of queries (sql.go). A [Batch] adds up records of the journal, each of which
// counts once; a [Recount] compares the books with each other; a dump is a
// store in a form that either engine can take.
//
// Rows come and go as they are in the tables. What is decided with them, what a
// node holds in memory and what a report shows do not enter.
package store
