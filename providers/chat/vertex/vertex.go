// Package vertex speaks to the models of Anthropic on Google's Vertex AI: bodies
// are messages, but for the model, which is in the address, and the version,
// which is in the body. Gemini models are spoken to as on Google's own API,
// below another address.
//
// The endpoint adds the credential (package credential).
//
// Out of scope: anything that the Messages dialect does too.
package vertex

import (
	"bytes"
	"time"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
)

// Version is the one that every body names.
const Version = "vertex-2023-10-16"

var versionMember = []byte(`"anthropic_version":"` + Version + `"`)

// Anthropic implements dialect.Dialect.
type Anthropic struct{ anthropic.Dialect }

var _ dialect.Dialect = Anthropic{}

// Request is that of messages, with the version in the place of the model. The
// config has made sure that the model's name can be in an address.
func (a Anthropic) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	if err := a.Dialect.Request(r, c, t, s); err != nil {
		return err
	}
	model := len(`{"model":`) + len(t.Quoted)
	if !bytes.HasPrefix(r.Body, []byte(`{"model":`)) || len(r.Body) < model {
		panic("vertex: a body of messages begins with something else than its model")
	}
	r.Patches = append(r.Patches[:0], proxy.Patch{From: 1, To: model, With: versionMember})
	address(r, c, t, s)
	return nil
}

// address puts the model's name where Vertex looks for it.
func address(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) {
	s.Out = append(append(s.Out[:0], "/models/"...), t.Name...)
	if c.Stream {
		s.Out = append(s.Out, ":streamRawPredict"...)
	} else {
		s.Out = append(s.Out, ":rawPredict"...)
	}
	r.Path = s.Out
}

// Error reads an error answer of the model, or one of Google's in front of it.
func (a Anthropic) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	status, body = ownError(status, body)
	return a.Dialect.Error(status, retryAfter, body)
}

func ownError(status int, body []byte) (int, []byte) {
	if len(body) <= maxErrorBody && gjson.ValidBytes(body) {
		root := gjson.ParseBytes(body)
		if root.IsArray() {
			root = root.Get("0") // of a stream that did not begin
		}
		if word := root.Get("error.status").Str; word != "" {
			// Google's own: texts name projects, locations and models of the operator.
			if as := statuses[word]; as != 0 {
				status = as
			}
			body = nil
		}
	}
	return status, body
}

// statuses are Google's words for errors, with their statuses here.
var statuses = map[string]int{
	"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 401, "NOT_FOUND": 404, "RESOURCE_EXHAUSTED": 429,
	"UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504, "INTERNAL": 500,
}

const maxErrorBody = 64 << 10
