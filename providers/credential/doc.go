// Package credential proves to upstreams who asks them, where a key that never
// changes in a fixed header is not enough: a token that something else writes
// into a file (file.go), one that is got for a service account before the last
// one runs out (account.go), or a signature of every request (aws.go).
//
// A Credential belongs to an upstream's endpoint, so that chats, other forms of
// asking, probes and `farebox check` show the same. What it shows is made
// ahead of time: a request only copies it. One that is refused is renewed once
// for all requests that met the refusal, and they are sent again.
//
// Main types: Spec, Credential. What may not enter: bodies and dialects, and
// secrets in errors and logs.
package credential
