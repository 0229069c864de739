// Package anthropic speaks the Messages dialect: requests for chat completions
// become messages (request.go, turns.go, parts.go), answers (answer.go) and
// event streams (stream.go) become chat completions.
//
// Nothing is decoded into structures: texts are copied as they are between
// their quotes, so that the model's text reaches the client unchanged.
//
// Out of scope: anything the Messages dialect does not have.
package anthropic

import (
	"strings"
	"time"

	"farebox/providers/chat/dialect"
)

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
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	if status == 400 && strings.HasPrefix(dialect.ErrorMessage(body), noCredit) {
		status = 402
	}
	return dialect.FailureOf(status, retryAfter, body)
}

// noCredit begins the message of a 400 that is about the operator's account and
// not about the request. Messages about requests begin with the path of the
// member that is wrong, so that no client's words can be there.
const noCredit = "Your credit balance is too low to access the Anthropic API"

// Translates is true: answers are rewritten as a whole.
func (Dialect) Translates() bool { return true }
