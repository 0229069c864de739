// Package providers is the catalog: models, their names, the targets that serve them, the
// health of those targets, and the answer of GET /models.
//
// [Catalog] is an immutable snapshot of the config; a reload makes a new one
// that takes over the connections and the health of targets whose settings did
// not change. [Picker] chooses the targets of one request. The dialects of upstreams
// are below, by capability: chat/openai and chat/anthropic over their common parts
// (chat/dialect, whose names names.go lists under this package's name), image with a
// folder for each dialect, and rpc. dialects.go lists all of them, images.go gives
// models of pictures their targets.
//
// Out of scope: money, limits, keys, and bytes of requests or answers,
// which are the dialects' business.
package providers
