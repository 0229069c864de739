// Package messages is Anthropic's Messages as a form of asking for a chat
// completion (dialect.Form). Read makes a chat body of a client's (read.go,
// turns.go, blocks.go, options.go) and remembers where each member came from
// (path.go); a Form turns the completion back: whole ones in answer.go and
// thoughts.go, chunks in stream.go and emit.go. What no chat body has a word for is left
// out and told (Form.LeftOut), unless it changes the price or what a tool may do.
//
// Thoughts go both ways with what makes them valid: those of other makers than
// Anthropic travel sealed in a signature (seal.go).
//
// What may not enter: upstreams, prices, and whatever is asked of an upstream
// that speaks Messages itself; that is package anthropic.
package messages
