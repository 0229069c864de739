// Package slab keeps values next to each other that stay in memory for good:
// with 100,000 of them spread over the heap, a request waits longer for the
// tables of pages than for its key.
//
// [Of] hands them out. Its memory is asked for in blocks that can have pages of
// 2 MB where the system has them.
//
// Out of scope: giving values back, and anything about their meaning.
package slab
