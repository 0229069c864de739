// Package credential authenticates us to upstreams where a fixed key in a header is not
// enough: a token that another program writes into a file (file.go), one that is fetched
// for a service account before the last one expires (account.go), or a signature of every
// request (aws.go).
//
// A Credential belongs to an upstream's endpoint, so that chats, other requests, probes and
// `farebox check` send the same. Its token is made ahead of time: a request only copies it.
// A refused token is renewed once for all requests that were refused, and they are sent
// again.
//
// Main types: Spec, Credential. Out of scope: bodies and dialects, and
// secrets in errors and logs.
package credential
