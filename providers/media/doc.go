// Package media keeps what models made until customers have fetched it: in a
// directory of this machine, or in a bucket of any server that speaks S3.
//
// [Store] puts, opens, links to and deletes files by the id of their job; it knows
// neither accounts nor jobs, which are rows of the ledger's store. What is written
// appears whole or not at all. [Links] signs the addresses that answers contain.
//
// What may not enter: money, jobs, and requests of clients.
package media
