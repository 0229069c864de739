// Package responses sells chat completions in the form of OpenAI's POST /responses
// (interface.md, Responses; addendum 6). Items of answers are kept for a while, for
// references to them (references.go), and whole answers where the config says so: requests
// go on from them (stored.go), and clients read and delete them (saved.go).
//
// Capability is the type that main registers. The rules of a body are in rules.go. The form
// itself, there and back, is providers/chat/responses; routes.TextModels decides about the sale.
//
// Out of scope: money, upstreams, streams, and the features of a model, which are checked
// with the chat body that a request becomes.
package responses
