// Package scan reads a JSON request body once and remembers where the members
// are that somebody will price, route, check or change.
//
// It is structure-strict and value-lax: brackets, commas, colons, quotes,
// numbers and literals must be exact to the last byte, while the inside of
// strings is skipped unseen (Skim), or checked for control characters and UTF-8
// only (SkimStrict); the upstream's own parser judges the rest. Value is exact
// inside strings too, for requests that several parsers read. It never
// recurses and never allocates in steady state, so that no body can exhaust
// the stack or the heap.
//
// Main types: Shape (which members matter, built once at start), Document (what
// one body holds, reused), Field (one member or array element), Error.
// Knowledge of particular endpoints, prices or dialects may not enter.
package scan
