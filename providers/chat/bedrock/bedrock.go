// Package bedrock speaks to Amazon Bedrock through the endpoints that take
// OpenAI's and Anthropic's own bodies: [OpenAI] and [Anthropic] differ from
// these dialects only in the form of errors.
//
// The endpoint adds the credential (package credential): a key as bearer
// token, with which bodies go out as they are, or a signature of each request.
//
// Out of scope: Bedrock's own bodies (Converse, InvokeModel) and its binary
// event streams: these endpoints answer with server-sent events, whose bytes can
// go on as they come.
package bedrock

import (
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/openai"
	"farebox/proxy"
)

// OpenAI is the endpoint of chat completions.
type OpenAI struct{ openai.Dialect }

// Anthropic is the endpoint of messages.
type Anthropic struct{ anthropic.Dialect }

// Native is the endpoint of messages for clients that write them themselves.
type Native struct{ anthropic.Native }

var (
	_ dialect.Dialect = OpenAI{}
	_ dialect.Dialect = Anthropic{}
	_ dialect.Dialect = Native{}
)

// Error reads an error answer.
func (o OpenAI) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	status, body = ownError(status, body)
	return o.Dialect.Error(status, retryAfter, body)
}

// Error reads an error answer.
func (a Anthropic) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	status, body = ownError(status, body)
	return a.Dialect.Error(status, retryAfter, body)
}

// betas are those that the endpoint knows.
var betas = anthropic.CloudBetas{
	"advanced-tool-use-2025-11-20":           "tool-search-tool-2025-10-19",
	"claude-code-20250219":                   "claude-code-20250219",
	"context-management-2025-06-27":          "context-management-2025-06-27",
	"effort-2025-11-24":                      "effort-2025-11-24",
	"fine-grained-tool-streaming-2025-05-14": "fine-grained-tool-streaming-2025-05-14",
	"interleaved-thinking-2025-05-14":        "interleaved-thinking-2025-05-14",
	"output-128k-2025-02-19":                 "output-128k-2025-02-19",
	"structured-outputs-2025-11-13":          "structured-outputs-2025-11-13",
	"thinking-display-updates-2026-08-18":    "thinking-display-updates-2026-08-18",
	"token-efficient-tools-2025-02-19":       "token-efficient-tools-2025-02-19",
}

// Takes is dialect.Choosy's.
func (Native) Takes(c *dialect.Chat, _ *dialect.Target) bool { return !anthropic.Instructs(c) }

// Request is that of messages, with the features that the endpoint knows.
func (n Native) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	if err := n.Native.Request(r, c, t, s); err != nil {
		return err
	}
	betas.Keep(r, c)
	return nil
}

// Error reads an error answer.
func (n Native) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	status, body = ownError(status, body)
	return n.Native.Error(status, retryAfter, body)
}

// ownError reads the form that AWS itself answers in, before a model's endpoint
// sees a request: {"message":…}, with the kind of error in __type or code. Its
// texts name accounts, roles and addresses of models, so that only texts about
// the request's own values are kept.
func ownError(status int, body []byte) (int, []byte) {
	if len(body) > maxErrorBody || !gjson.ValidBytes(body) {
		return status, body
	}
	root := gjson.ParseBytes(body)
	if root.Get("error").Exists() || root.Get("type").Str == "error" {
		return status, body
	}
	kind := root.Get("__type").String() + root.Get("code").String()
	kind = kind[strings.LastIndexByte(kind, '#')+1:]
	if as, known := kinds[kind]; known {
		status = as
	}
	for _, begin := range wrongModel {
		if strings.HasPrefix(root.Get("message").Str, begin) {
			status = 404
		}
	}
	if status != 400 || strings.Contains(root.Raw, "arn:aws") {
		return status, nil
	}
	return status, body
}

// kinds are AWS's names of errors, with their statuses here. Those that a
// request cannot cause are of the operator's account or keys.
var kinds = map[string]int{
	"AccessDeniedException": 401, "UnrecognizedClientException": 401, "InvalidSignatureException": 401,
	"ExpiredTokenException": 401, "IncompleteSignatureException": 401, "MissingAuthenticationTokenException": 401,
	"ResourceNotFoundException": 404, "ServiceQuotaExceededException": 429, "ThrottlingException": 429,
	"ModelNotReadyException": 503, "ModelTimeoutException": 504, "ModelErrorException": 500,
	"InternalServerException": 500, "ServiceUnavailableException": 503,
}

// wrongModel begin texts of 400 about a model that the account does not have
// under that name. Texts about requests begin otherwise.
var wrongModel = []string{"The provided model identifier is invalid", "Invocation of model ID "}

const maxErrorBody = 64 << 10
