// Package augment tests products sold by the call (interface.md, Augment; addendum 12):
// pages, searches and documents, against services, sites and files that are well, wrong
// and hostile, and the ledger's record of all calls.
package augment
