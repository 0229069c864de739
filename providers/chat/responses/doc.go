// Package responses is OpenAI's POST /responses (addendum 6) as a form of asking
// for chat completions, and how upstreams are spoken to that take it themselves.
//
// [Form] holds a client's request: its own body becomes a chat body (request.go,
// input.go, tools.go), a whole answer is written as a response (answer.go), and a
// streamed one as events (stream.go, chunk.go, items.go). [Native] gives the
// client's own body to an upstream, without members that would reach into the operator's
// account there, and meters the answer.
//
// Out of scope: prices, the choice of a target, and anything that only one
// upstream needs.
package responses
