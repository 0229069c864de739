package dialect

import "farebox/proxy"

// FormKind names a client format other than that of chat completions. Each package of such
// a format has its own.
type FormKind string

// Form is a client format other than that of chat completions, for one request. The client's
// body becomes a chat body first; the chat completion is turned back as the last step.
type Form interface {
	Kind() FormKind
	// Adapts names the members of its requests that are fitted to the model.
	Adapts() *Adapted
	// Path is the path in the client's own body of a member of the chat body, such as
	// input.2.content for messages.3.content.
	Path(chat string) string
	// Answer turns a whole chat completion into the client's answer. The cost and the
	// <brand>_parameters of the completion are in it where the client is to have them.
	Answer(completion []byte, c *Chat) ([]byte, error)
	// Stream starts turning the chunks of a chat completion into the client's events.
	Stream(c *Chat) FormStream
	// AppendError appends the event that ends a failed stream, and the bytes that must
	// follow it. It is for the streams of upstreams that speak the form themselves.
	AppendError(dst []byte, c *Chat, f *Fault) []byte
}

// Adapted has a form's names of members that the gateway fits to a model without the
// feature. Requests for features without a name are refused, but for ToolImage.
type Adapted struct {
	// ToolImage is a picture in a result of a tool. Forms whose results may have pictures name it.
	ToolImage Omission
	// Cap is on completion tokens, Effort and Thinking are of reasoning.
	Cap, Effort, Thinking Omission
}

// Partial is a Form whose chat body may lack a part of the client's request.
type Partial interface {
	// Untold is a request that no chat body has a word for; nil: none. A target that does not
	// speak the form is not asked then.
	Untold() *Unsupported
}

// Choosy is a dialect of a form whose upstreams do not take all that clients write in it.
// They are asked for a chat completion then.
type Choosy interface {
	Takes(c *Chat, t *Target) bool
}

// Overflowing is a Form whose clients read the figures out of the text of the error that a
// prompt is too long, and shorten it by them.
type Overflowing interface {
	TooLong(tokens, most int64) string
}

// Counter is a dialect of a form whose upstreams count the tokens of a prompt for
// nothing.
type Counter interface {
	// Count fills path, body and patches of r, as Dialect.Request does.
	Count(r *proxy.Request, c *Chat, t *Target, s *Scratch) error
	// Counted reads a complete 2xx body.
	Counted(body []byte) (tokens int64, ok bool)
}

// FormStream turns server-sent events of chat completions into those of a Form. One
// goroutine owns it.
type FormStream interface {
	// Pass is given the next bytes of the chunks, cut anywhere, and returns whole events
	// for the client. They are valid until the next call.
	Pass(chunks []byte) []byte
	// Finish returns the client's last events, where Pass has not given them yet: the
	// chunks came to their end.
	Finish() []byte
	// Fail ends the events with an error in the place of Finish. A rest that is not yet a
	// whole chunk is dropped.
	Fail(f *Fault) []byte
	// Release gives the FormStream back; it must not be used afterwards.
	Release()
}
