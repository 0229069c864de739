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
	left           dialect.LeftOut

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

// LeftOut is dialect.Abridged's.
func (f *Form) LeftOut() *dialect.LeftOut { return &f.left }

// Beta is the value of the header anthropic-beta for an upstream.
func (f *Form) Beta() string { return f.Betas }

// errorType is Anthropic's word for what a stream failed of, by the code of chat
// completions.
func errorType(code string) string {
	switch code {
	case "insufficient_balance":
		return "billing_error"
	case "model_overloaded":
		return "overloaded_error"
	case "context_length_exceeded", "content_blocked_by_provider":
		return "invalid_request_error"
	}
	return "api_error"
}

// AppendError is dialect.Form's.
func (*Form) AppendError(dst []byte, code, _, message string) []byte {
	dst = append(dst, `event: error`+"\n"+`data: {"type":"error","error":{"type":"`...)
	dst = append(append(dst, errorType(code)...), `","message":`...)
	return append(dialect.AppendString(dst, message), "}}\n\n"...)
}
