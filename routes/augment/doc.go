// Package augment sells pages, searches and documents by the call
// (interface.md, Augment; addendum 12).
//
// Capability is the type that main registers. scrape.go, search.go and document.go are its
// endpoints. A value of type call is one request: it buys one line at a price that is known
// before, so call.go has the only path of all three.
//
// Package providers/scrape reads pages, how services search in
// providers/search, how documents become text in providers/parse. Nothing of
// another capability may enter.
package augment
