// Package fetch gets what a URL points to when the URL is somebody else's word:
// a client's, or an upstream's. A [Client] refuses to connect to anything that
// is not the public internet, whatever name, spelling, redirect or DNS answer
// leads there, and bounds time, size, redirects and concurrency.
//
// The check is in the dialer, after the name was resolved and on the very
// address that is dialled, so that no second look at DNS can differ.
//
// What may not enter: knowledge of what is fetched, and of the caller.
package fetch
