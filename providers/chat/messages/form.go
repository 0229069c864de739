package messages

import (
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Form is one request that was asked as Anthropic's clients do. It is
// dialect.Form, and dialect.Partial.
type Form struct {
	body []byte
	doc  *scan.Document

	turns          []turn
	parts, tools   []int32 // blocks that parts and calls were made of, and tools
	effort, format string  // where the effort and the schema are
	stops          []byte
	thinks         bool // thoughts were asked for
	hides          bool // …but not their texts
	untold         *dialect.Unsupported
	left           dialect.LeftOut

	betas      string // the part of the client's anthropic-beta that may be passed on
	stripped   bool   // …and that it has more
	instructed bool   // a message has the role system
}

var _ dialect.Form = (*Form)(nil)

// Kind is that of Anthropic's POST /messages.
const Kind dialect.FormKind = "messages"

// Kind is dialect.Form's.
func (*Form) Kind() dialect.FormKind { return Kind }

// adapted is for clients that ask for thoughts, an effort and a number of tokens whatever
// the model can do.
var adapted = dialect.Adapted{
	ToolImage: "messages.content.content.image", Cap: "max_tokens", Effort: "output_config.effort", Thinking: "thinking",
}

// Adapts is dialect.Form's.
func (*Form) Adapts() *dialect.Adapted { return &adapted }

// Untold is dialect.Partial's.
func (f *Form) Untold() *dialect.Unsupported { return f.untold }

// LeftOut is dialect.Abridged's.
func (f *Form) LeftOut() *dialect.LeftOut { return &f.left }

// errorType is Anthropic's word for the failure of a stream, by the code of chat
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

// TooLong is dialect.Overflowing's. Claude Code compacts the conversation on this text, and
// on no other.
func (*Form) TooLong(tokens, most int64) string {
	return "prompt is too long: " + strconv.FormatInt(max(tokens, most+1), 10) + " tokens > " +
		strconv.FormatInt(most, 10) + " maximum"
}

// AppendError is dialect.Form's.
func (*Form) AppendError(dst []byte, _ *dialect.Chat, fault *dialect.Fault) []byte {
	dst = append(dst, `event: error`+"\n"+`data: {"type":"error","error":{"type":"`...)
	dst = append(append(dst, errorType(fault.Code)...), `","message":`...)
	return append(jsontext.AppendString(dst, fault.Message), "}}\n\n"...)
}
