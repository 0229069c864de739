// Package store keeps the state that must outlive the process: accounts, keys, balances,
// double entry, usage, jobs, cloned voices. A ledger works with [Store], and several nodes
// with [Shared]; [OpenSQLite] and [OpenPostgres] open the
// two engines, which have one schema (schema.go, with every migration) and one set
// of queries (sql.go). A table is a struct whose tags name its columns (rows.go). A [Batch] adds up records of the journal, each of which
// counts once; a [Recount] compares the books with each other; a dump is a
// store in a form that either engine can take.
//
// Rows come and go as they are in the tables. Decisions, the memory of nodes and the contents
// of reports stay outside.
package store
