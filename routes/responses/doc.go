// Package responses sells chat completions in the form of OpenAI's POST /responses
// (interface.md, Responses; addendum 6). Items of answers are kept for a while, for
// references to them (references.go), and whole answers where the config says so: requests
// go on from them (stored.go), and clients read and delete them (saved.go).
//
// Capability is what main registers. What a body must be is in rules.go. The form
// itself, there and back, is providers/chat/responses; what is sold, and how, is the
// business of those who answer as routes.TextModels.
//
// What may not enter: money, upstreams, streams, and what a model can do, which the chat
// body is checked for that a request becomes.
package responses
