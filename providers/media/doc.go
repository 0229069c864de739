// Package media keeps the results of jobs until customers have fetched them: in a
// directory of this machine, or in a bucket of any server that speaks S3.
//
// [Store] puts, opens, links to and deletes files by the id of their job; it knows neither
// accounts nor jobs, which are rows of the ledger's store. A file appears whole or not at
// all. [Links] signs the addresses that answers contain.
//
// Out of scope: money, jobs, and requests of clients.
package media
