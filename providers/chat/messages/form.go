package messages

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// Form is one request that was asked as Anthropic's clients do. It is
// dialect.Form, and dialect.Partial.
type Form struct {
	body []byte
	doc  *scan.Document

	turns          []turn
	parts, tools   []int32 // blocks that parts and calls were made of, and tools
	effort, format string  // where the effort and the schema stand
	stops          []byte
	hides          bool // thoughts are not shown
	untold         *dialect.Unsupported

	// Brand is the word in <brand>_parameters, which tell what was searched.
	Brand string
	// Betas is what the client's anthropic-beta has that may be passed on; empty: nothing.
	Betas string
}

var _ dialect.Form = (*Form)(nil)

// Kind is dialect.Form's.
func (*Form) Kind() dialect.FormKind { return dialect.Messages }

// Untold is dialect.Partial's.
func (f *Form) Untold() *dialect.Unsupported { return f.untold }

// Beta is the value of the header anthropic-beta for an upstream.
func (f *Form) Beta() string { return f.Betas }

// ErrorType is Anthropic's word for a kind of failure, by its code or the status of
// an answer; 0: none.
func ErrorType(code string, status int) string {
	switch code {
	case "insufficient_balance":
		return "billing_error"
	case "model_overloaded":
		return "overloaded_error"
	case "context_length_exceeded", "content_blocked_by_provider":
		return "invalid_request_error"
	}
	switch {
	case status == 401:
		return "authentication_error"
	case status == 402:
		return "billing_error"
	case status == 403:
		return "permission_error"
	case status == 404, status == 410:
		return "not_found_error"
	case status == 413:
		return "request_too_large"
	case status == 429 && code == "MODEL_OVERLOADED", status == 503, status == 529:
		return "overloaded_error"
	case status == 429:
		return "rate_limit_error"
	case status == 504:
		return "timeout_error"
	case status >= 400 && status < 500:
		return "invalid_request_error"
	}
	return "api_error"
}

// AppendError is dialect.Form's.
func (*Form) AppendError(dst []byte, code, _, message string) []byte {
	dst = append(dst, `event: error`+"\n"+`data: {"type":"error","error":{"type":"`...)
	dst = append(append(dst, ErrorType(code, 0)...), `","message":`...)
	return append(dialect.AppendString(dst, message), "}}\n\n"...)
}
