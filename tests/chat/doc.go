// Package chat tests chat and embeddings on the wire: what is refused and in which
// words, which bytes pass untouched, what is kept for repeated requests, and what
// upstreams that break, lie or refuse do to the answer.
//
// What an answer costs is the subject of tests/billing, unmodified client packages
// that of tests/clients.
package chat
