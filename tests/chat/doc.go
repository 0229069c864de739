// Package chat tests chat and embeddings on the wire: refusals and their wording, bytes that pass
// untouched, state that is kept for repeated requests, and the answers to clients when upstreams
// break, lie or refuse.
//
// Charges are the subject of tests/billing, unmodified client packages that of tests/clients.
package chat
