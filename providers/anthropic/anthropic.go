// Package anthropic speaks the Messages dialect: requests for chat completions
// become messages (request.go, turns.go, parts.go), answers (answer.go) and
// event streams (stream.go) become chat completions.
//
// Nothing is decoded into structures: texts are copied as they stand between
// their quotes, so that what the model said reaches the client unchanged.
//
// What may not enter: anything the Messages dialect does not have.
package anthropic

import "farebox/providers/dialect"

const (
	// VersionHeader must be on every request.
	VersionHeader = "anthropic-version"
	// Version is the dialect's version that this package speaks.
	Version = "2023-06-01"
)

// Dialect implements dialect.Dialect.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Error reads an upstream's error answer.
func (Dialect) Error(status int, body []byte) dialect.Failure {
	return dialect.FailureOf(status, body)
}

// Translates is true: answers are rewritten as a whole.
func (Dialect) Translates() bool { return true }
