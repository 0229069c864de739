package dialect

import (
	"slices"

	"farebox/proxy/scan"
)

// Chat is a chat or embeddings request as routes has read it; a dialect
// makes the upstream's request of it. Body and references to it are valid
// until the request ends.
type Chat struct {
	Body  []byte
	Doc   *scan.Document // of Body, with ChatShape or EmbedShape
	Model *Model
	// Form is how the client asked where that was not as chat completions do, Told its
	// own body, of which Body was made, and ToldDoc a scan of it; nil: Body is its own.
	Form    Form
	Told    []byte
	ToldDoc *scan.Document

	// Suffix is the feature suffix that was cut from the model name (addendum 5.4).
	Suffix []byte

	Embedding bool
	Stream    bool
	// IncludeUsage is the client's value in stream_options; nil: nothing.
	IncludeUsage *bool
	// Choices is n, at least 1.
	Choices int64

	// AskedCompletion is the client's own cap on completion tokens of a choice, 0: none.
	AskedCompletion int64
	// MaxCompletion is the cap to send, 0: the client's own or none.
	MaxCompletion int64
	// Cap is the most completion tokens of all choices together, MostPrompt the
	// most prompt tokens, that are charged whatever the upstream reports; 0: any.
	Cap, MostPrompt int64
	// BrokenOff says that we ended the answer ourselves, with an error.
	BrokenOff bool
	// ClientMaxTokens says that the body has max_tokens, which we let pass for
	// max_completion_tokens.
	ClientMaxTokens bool

	// ReasoningEffort is the effort to send instead of the body's; nil: the body's.
	ReasoningEffort []byte
	// NoReasoning says that the model's record denies reasoning: the body's
	// settings for it are not sent.
	NoReasoning bool
	// DropThinking removes <think> blocks from the answer.
	DropThinking bool
	// SystemPrompt goes before the messages; nil: none.
	SystemPrompt []byte
	// Verbatim says that the model runs in an enclave, which signs for the bytes: of the
	// request only the necessary parts are changed, of the answer none.
	Verbatim bool
	// Unseen is how many pictures in results of tools, the oldest first, the model is not
	// shown. They are gone from Body.
	Unseen int
	// LeftOut has the members that the target's request leaves out. Every
	// translator adds to it.
	LeftOut LeftOut
	// Searched is the query searched for before the model is asked; empty: no search.
	Searched string
	// Sealed says that the contents of the messages are sealed to that enclave, and that
	// every text of the answer must be sealed to the client.
	Sealed bool
	// Cost appends the cost that follows a stream's usage (addendum 5.7), or nothing; nil: it
	// is absent.
	Cost func(dst []byte, u *Usage) []byte

	// Brand is the word in <brand>_parameters.
	Brand string
	// Adds are added to an answer in the client's form.
	Adds Additions
	// Client is the stream in the client's form; nil: it gets chat completions, or the
	// upstream speaks its form.
	Client *FormStream
	// Said is where a dialect that translates puts a whole answer; nil: it writes a chat
	// completion.
	Said *Completion
}

// NotShown replaces a picture that the model is not shown, so that it does not take a
// result for an empty one.
const NotShown = "(An image, which is not shown to this model.)"

// Beside replaces the text of a result without text: pictures follow.
const Beside = "(The result is shown beside this text.)"

var effortNone = []byte("none")

// Prepare applies strip_thinking_response and disable_thinking (addendum 5.3):
// strip removes <think> blocks from the answer, disable turns reasoning off
// where the model has an effort for that.
func (c *Chat) Prepare(strip, disable bool) {
	c.DropThinking = strip || disable
	if disable && c.Model != nil && slices.Contains(c.Model.Chat.Capabilities.ReasoningEffort, "none") {
		c.ReasoningEffort = effortNone
	}
}

// Effort is the reasoning effort that holds: ours, the body's
// reasoning_effort, or its reasoning.effort (interface.md, Chat). nil: none.
func (c *Chat) Effort() []byte {
	if c.ReasoningEffort != nil {
		return c.ReasoningEffort
	}
	if c.Embedding || c.NoReasoning {
		return nil
	}
	if text := c.Text(c.Doc.TopIndex(ChatReasoningEffort)); text != nil {
		return text
	}
	if i := c.Doc.TopIndex(ChatReasoning); i >= 0 {
		return c.Text(c.Doc.Member(i, ReasoningEffort))
	}
	return nil
}

// Text is the raw content of a string field, escapes as
// written; nil when there is no such field (i < 0) or it is not a string.
func (c *Chat) Text(i int32) []byte { return c.Doc.StringAt(c.Body, i) }

// Raw is the text of a field's value; nil if absent or null.
func (c *Chat) Raw(i int32) []byte { return c.Doc.RawAt(c.Body, i) }

// True says that a field is there and true.
func (c *Chat) True(i int32) bool { return i >= 0 && c.Doc.Fields[i].Kind == scan.True }

// HidesUsage says that the client asked not to see usage in the stream. Without
// a word of the client it is shown (addendum 5.7).
func (c *Chat) HidesUsage() bool { return c.IncludeUsage != nil && !*c.IncludeUsage }

// AppendCost appends the cost of a stream, an object, or nothing.
func (c *Chat) AppendCost(dst []byte, u *Usage) []byte {
	if c.Cost == nil {
		return dst
	}
	return c.Cost(dst, u)
}

// AppendCostMember appends the member behind the usage in a stream, which has the cost.
func (c *Chat) AppendCostMember(dst []byte, u *Usage) []byte {
	const name = `,"cost":`
	with := c.AppendCost(append(dst, name...), u)
	if len(with) == len(dst)+len(name) {
		return dst
	}
	return with
}

// Accept is the media type of the answer that is asked for.
func (c *Chat) Accept() string {
	if c.Stream {
		return "text/event-stream"
	}
	return "application/json"
}

// keepScratch is the most memory that a reused Scratch keeps.
const keepScratch = 64 << 10

// Scratch is memory that one request's translation uses and the next one
// reuses. The zero value is ready.
type Scratch struct {
	// Buf holds the bytes that patches insert or the rewritten body.
	Buf []byte
	// Cuts and Picks are working lists of request patches.
	Cuts  []scan.Span
	Picks []int32
	// Doc is a scan of the answer.
	Doc scan.Document
	// Out holds the answer when it is not the upstream's own bytes.
	Out []byte
}

// Reset readies s for the next request and gives back large buffers.
func (s *Scratch) Reset() {
	if cap(s.Buf) > keepScratch {
		s.Buf = nil
	}
	if cap(s.Out) > keepScratch {
		s.Out = nil
	}
	s.Buf, s.Out, s.Cuts, s.Picks = s.Buf[:0], s.Out[:0], s.Cuts[:0], s.Picks[:0]
	s.Doc.Reset()
}

// CompletionCap is the most tokens that a choice may have, thoughts included: the cap that
// the gateway or the client sets, else the model's; 0: none.
func (c *Chat) CompletionCap() int64 {
	switch m := c.Model; {
	case c.MaxCompletion > 0:
		return c.MaxCompletion
	case c.AskedCompletion > 0:
		return c.AskedCompletion
	case m != nil:
		return max(m.Chat.MaxCompletionTokens, 0)
	}
	return 0
}
