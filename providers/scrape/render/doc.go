// Package render gives pages as they are after their scripts have run: a [Renderer] keeps
// one Chromium, started when a page needs it and ended when no page has for a while, or
// uses one that an operator runs elsewhere.
//
// A browser runs untrusted scripts, so that none of its requests may go out directly: each
// page has a browser context of its own, whose every connection goes through our guard
// proxy with that page's own password, and from there through the guard of providers/fetch.
// A page has a budget of time, bytes and connections, keeps nothing, and saves nothing to
// disk.
//
// Out of scope: the content of pages, and any other way out.
package render
