// Package gemini speaks Google's generateContent dialect, on the Gemini API and
// on any host with the same paths: requests for chat completions become contents
// and a generationConfig (request.go, turns.go, parts.go, calls.go, thinking.go),
// answers (answer.go) and event streams (stream.go, chunks.go) become chat
// completions.
//
// Nothing is decoded into structures: texts are copied as they are between
// their quotes, so that the model's text reaches the client unchanged.
//
// Out of scope: anything that generateContent does not have, and the source of
// keys and tokens.
package gemini

import (
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// KeyHeader carries the key.
const KeyHeader = "x-goog-api-key"

// Dialect implements dialect.Dialect.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Error reads an upstream's error answer. A wrong key and an account that may
// not use the model are a 400 here, told apart by codes of the vendor's.
func (Dialect) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	body = envelope(body)
	if status == 400 {
		status = statusOf(body)
	}
	if retryAfter == 0 && status == 429 {
		retryAfter = retryInfo(body)
	}
	if len(body) <= maxErrorBody {
		body = modelName.ReplaceAll(body, thisModel)
	}
	return dialect.FailureOf(status, retryAfter, body)
}

// Translates is true: answers are rewritten as a whole.
func (Dialect) Translates() bool { return true }

// maxErrorBody bounds the searched part of an error body.
const maxErrorBody = 64 << 10

// envelope takes an error out of the list of one in which streams have it.
func envelope(body []byte) []byte {
	if len(body) > maxErrorBody {
		return body
	}
	if i := jsontext.SkipSpace(body, 0); i < len(body) && body[i] == '[' {
		if from, to, ok := jsontext.NextElement(body, i+1); ok {
			return body[from:to]
		}
	}
	return body
}

// statusOf is the status that a 400 means.
func statusOf(body []byte) int {
	if len(body) > maxErrorBody || !gjson.ValidBytes(body) {
		return 400
	}
	e := gjson.GetBytes(body, "error")
	if e.Get("status").Str == "FAILED_PRECONDITION" {
		return 403 // the operator's region or account has no right to the model
	}
	for _, reason := range e.Get("details.#.reason").Array() {
		if strings.HasPrefix(reason.Str, "API_KEY_") {
			return 401
		}
	}
	return 400
}

// mostRetryDelay bounds how long an upstream may ask to be left alone.
const mostRetryDelay = time.Hour

// retryInfo is how long the details of an error ask to wait.
func retryInfo(body []byte) time.Duration {
	if len(body) > maxErrorBody || !gjson.ValidBytes(body) {
		return 0
	}
	for _, d := range gjson.GetBytes(body, "error.details.#.retryDelay").Array() {
		if wait, err := time.ParseDuration(d.Str); err == nil && wait > 0 {
			return min(wait, mostRetryDelay)
		}
	}
	return 0
}

var thisModel = []byte("this model")

// modelName is the upstream's name of a model, which its error texts repeat.
var modelName = regexp.MustCompile(
	`(?i)(?:\b[a-z0-9._-]+/)*\b(?:models|tunedmodels)/[a-z0-9._@-]*[a-z0-9]|\b(?:gemini|gemma|learnlm)-[a-z0-9._@-]*[a-z0-9]`)
