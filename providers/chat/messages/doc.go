// Package messages is Anthropic's Messages as a form of asking for a chat
// completion (dialect.Form). Read makes a chat body of a client's (read.go,
// turns.go, blocks.go, options.go) and remembers where each member came from
// (path.go); a Form writes the answer: whole ones in answer.go and
// thoughts.go, streams in stream.go and emit.go. Members that no chat body has a word for are left
// out and reported (Form.LeftOut), unless they change the price or the rights of a tool.
//
// Thoughts go both ways with their signatures: those of other makers than
// Anthropic travel sealed in a signature (seal.go).
//
// Out of scope: upstreams, prices, and requests to an upstream that speaks
// Messages itself; that is package anthropic.
package messages
