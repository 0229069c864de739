// Package fetch downloads untrusted URLs: those of clients and of upstreams. A [Client]
// refuses to connect to anything that is not the public internet, whatever name, spelling,
// redirect or DNS answer leads there, and bounds time, size, redirects and concurrency.
//
// The check is in the dialer, after the name was resolved and on the very
// address that is dialled, so that no second look at DNS can differ.
//
// Out of scope: the content of downloads, and the caller.
package fetch
