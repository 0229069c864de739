package dialect

import "farebox/proxy"

// FormKind is a form of asking for a chat completion beside that of chat completions. Each
// package of a form has its own.
type FormKind string

// Form is how one client asks for a chat completion where it does so in another form
// than that of chat completions. Its own body has become a chat body before anything
// else is done with it; the chat completion is turned back as the last step.
// A Form belongs to one request.
type Form interface {
	Kind() FormKind
	// Adapts says what of its requests is fitted to the model.
	Adapts() *Adapted
	// Path is where in the client's own body stands what a member of the chat body
	// was made of, such as input.2.content for messages.3.content.
	Path(chat string) string
	// Answer turns a whole chat completion into the client's answer. The cost and the
	// <brand>_parameters of the completion are in it where the client is to have them.
	Answer(completion []byte, c *Chat) ([]byte, error)
	// Stream starts turning the chunks of a chat completion into the client's events.
	Stream(c *Chat) FormStream
	// AppendError appends the event that ends a stream which failed, and the bytes that must
	// follow it. It is for the streams of upstreams that speak the form
	// themselves.
	AppendError(dst []byte, c *Chat, f *Fault) []byte
}

// Adapted has the names in a form of what the gateway fits to a model that cannot do it.
// What has no name is refused.
type Adapted struct {
	// ToolImage is a picture in a result of a tool.
	ToolImage Omission
	// Cap is on completion tokens, Effort and Thinking are of reasoning.
	Cap, Effort, Thinking Omission
}

// Partial is a Form whose chat body may lack what its client asked.
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
