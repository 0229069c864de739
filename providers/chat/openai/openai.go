// Package openai speaks to everything that takes chat completions and
// embeddings in OpenAI's form: OpenAI, Azure, vLLM, llama.cpp, Groq, Together,
// DeepSeek, Moonshot, OpenRouter, Mistral, xAI and others.
//
// Requests go out as they came, but for the bytes that must change
// (request.go). Answers go to the client as they came and are read on the way:
// whole (answer.go), as a stream of events ([stream]), or as one large
// document that is never held ([BodyMeter]).
//
// Out of scope: re-encoding of bodies, and anything that depends on the
// client.
package openai

import (
	"time"

	"farebox/providers/chat/dialect"
)

// Dialect implements dialect.Dialect.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Error reads an upstream's error answer.
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	return dialect.FailureOf(dialect.OperatorStatus(status, body), retryAfter, body)
}

// Translates is false: answers are relayed.
func (Dialect) Translates() bool { return false }
