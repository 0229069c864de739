// Package augment tests what is sold by the call (interface.md, Augment; addendum
// 12): pages, searches and documents, against services, sites and files that are
// well, wrong and hostile, and what the ledger has of all of it.
package augment
