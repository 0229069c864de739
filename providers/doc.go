// Package providers is the catalog: which models there are, what they are
// called, which targets serve them, in what health those are, and what
// GET /models says of them.
//
// [Catalog] is an immutable snapshot of the config; a reload makes a new one
// that takes over the connections and the health of targets whose settings did
// not change. [Picker] chooses the targets of one request. What upstreams speak
// is below, by capability: chat/openai and chat/anthropic over what they share
// (chat/dialect, whose names names.go lists under this room's name), image with a
// folder for each dialect, and rpc. dialects.go lists all of them, images.go gives
// models of pictures their targets.
//
// What may not enter: money, limits, keys, and bytes of requests or answers,
// which are the dialects' business.
package providers
