package dialect

import "farebox/proxy"

// FormKind names a client format other than that of chat completions. Each package of such
// a format has its own.
type FormKind string

// Form is a client format other than that of chat completions, for one request. The client's
// body becomes a chat body first; the answer is written in the client's format.
type Form interface {
	Kind() FormKind
	// Adapts names the members of its requests that are fitted to the model.
	Adapts() *Adapted
	// Path is the path in the client's own body of a member of the chat body, such as
	// input.2.content for messages.3.content.
	Path(chat string) string
	// Answer writes a whole answer. Its cost and parameters are in it where the client is
	// to have them.
	Answer(said *Completion, c *Chat) ([]byte, error)
	// Writer begins the client's events of an answer. It takes the needed parts of the
	// request now: its body is gone when the answer comes. Each attempt begins anew.
	Writer(c *Chat) FormWriter
	// AppendError appends the event that ends a failed stream, and the bytes that must
	// follow it. It is for the streams of upstreams that speak the form themselves.
	AppendError(dst []byte, c *Chat, f *Fault) []byte
}

// Keeping is a Form that has parts of its answer kept for later requests.
type Keeping interface {
	// Attempt begins another attempt at a stream. What it keeps waits for Take; nothing of an
	// earlier attempt is kept.
	Attempt()
	// Take says that the attempt's stream goes to the client.
	Take()
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
