// Package providers is the catalog: which models there are, what they are
// called, which targets serve them, in what health those are, and what
// GET /models says of them.
//
// [Catalog] is an immutable snapshot of the config; a reload makes a new one
// that takes over the connections and the health of targets whose settings did
// not change. [Picker] chooses the targets of one request. The dialects that
// upstreams speak are folders of their own (openai, anthropic) over what they
// share (dialect); names.go lists that under this room's name. Those of pictures
// are below image, and images.go gives them their targets.
//
// What may not enter: money, limits, keys, and bytes of requests or answers,
// which are the dialects' business.
package providers
