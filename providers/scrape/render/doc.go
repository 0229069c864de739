// Package render gives pages as they are after their scripts have run: a
// [Renderer] keeps one Chromium, started when a page needs it and ended when none
// has for a while, or uses one that an operator runs elsewhere.
//
// A browser does what strangers' scripts tell it, so that nothing it loads may go
// out by itself: each page has a browser context of its own, whose every
// connection goes through our guard proxy with that page's own password, and from
// there through the guard of providers/fetch. A page has a budget of time, bytes
// and connections, keeps nothing, and saves nothing to disk.
//
// Out of scope: what a page is about, and any other way out.
package render
