// Package dialect has the common parts of the dialects, and the types that the catalog
// and routes use: the request as it was read ([Chat], and the [scan.Shape] of
// its body), where it goes ([Model], [Target], [Upstream]), the answer's
// [Usage], failures, and the machinery of streaming answers: server-sent
// events, produced text, tokens.
//
// Each dialect is a folder next to this one and implements [Dialect]: it turns
// a request into its upstream's, and the upstream's answer or [Stream] into a chat
// completion, or into the events of the client's [Form].
//
// Out of scope: money, connections, the choice of a target, and anything
// that only one dialect needs.
package dialect
