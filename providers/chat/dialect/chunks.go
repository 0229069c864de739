package dialect

import (
	"strconv"
	"time"

	"farebox/proxy/jsontext"
)

// writer writes the events of an answer in one form.
type writer interface {
	// begin begins the answer. id is the completion's without its prefix.
	begin(id []byte, model string)
	// role begins a choice.
	role(choice int64)
	// text adds text to a choice. logprobs is a list in the form of chat completions; nil:
	// absent. think filters the text; nil: nothing is left out.
	text(choice int64, text, logprobs []byte, think *Think)
	event(e *Event)
	// finish ends a choice with the text that think still holds.
	finish(choice int64, reason string, think *Think)
	// end ends the answer, done ends one that failed.
	end(a *Answer)
	done()
	// fail writes the error that data says; nil: one of ours.
	fail(data []byte)
	output() *[]byte
}

// silent writes nothing.
type silent chunks

func (*silent) begin([]byte, string)               {}
func (*silent) role(int64)                         {}
func (*silent) text(int64, []byte, []byte, *Think) {}
func (*silent) event(*Event)                       {}
func (*silent) finish(int64, string, *Think)       {}
func (*silent) end(*Answer)                        {}
func (*silent) done()                              {}
func (*silent) fail([]byte)                        {}
func (s *silent) output() *[]byte                  { return &s.out }

// chunks writes the events of an answer as chunks of a chat completion.
type chunks struct {
	out  []byte
	head []byte // of every chunk, up to its choices
	say  []byte // …up to the text of the first choice
}

func (c *chunks) output() *[]byte { return &c.out }

// begin makes the head.
func (c *chunks) begin(id []byte, model string) {
	c.head = append(append(c.head[:0], `data: {"id":"chatcmpl-`...), id...)
	c.head = append(c.head, `","object":"chat.completion.chunk","created":`...)
	c.head = strconv.AppendInt(c.head, time.Now().Unix(), 10)
	c.head = jsontext.Object(c.head).Text("model", model)
	c.head = append(c.head, `,"choices":[`...)
	c.say = append(append(c.say[:0], c.head...), `{"index":0,"delta":{"content":"`...)
}

// open begins a chunk's delta object, shut ends it.
func (c *chunks) open(choice int64) {
	c.out = append(append(c.out, c.head...), `{"index":`...)
	c.out = append(strconv.AppendInt(c.out, choice, 10), `,"delta":{`...)
}

func (c *chunks) shut() {
	c.out = append(c.out, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
}

func (c *chunks) role(choice int64) {
	c.open(choice)
	c.out = append(c.out, `"role":"assistant","content":""`...)
	c.shut()
}

// openText begins a chunk with text of the answer, shutText ends it.
func (c *chunks) openText(choice int64) {
	if choice == 0 {
		c.out = append(c.out, c.say...)
		return
	}
	c.open(choice)
	c.out = append(c.out, `"content":"`...)
}

func (c *chunks) shutText(logprobs []byte) {
	if logprobs == nil {
		c.out = append(c.out, "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
		return
	}
	c.out = append(append(c.out, `"},"logprobs":`...), logprobs...)
	c.out = append(c.out, ",\"finish_reason\":null}]}\n\n"...)
}

func (c *chunks) text(choice int64, text, logprobs []byte, think *Think) {
	c.openText(choice)
	if think != nil {
		c.out = think.Filter(c.out, text)
	} else {
		c.out = append(c.out, text...)
	}
	c.shutText(logprobs)
}

func (c *chunks) event(e *Event) {
	c.open(e.Choice)
	switch e.Kind {
	case Thought:
		c.out = append(append(append(c.out, `"reasoning_content":"`...), e.Text...), '"')
	case Signature:
		c.out = append(appendDetail(append(c.out, `"reasoning_details":[`...), e), ']')
		if e.Signed {
			c.out = append(append(append(c.out, `,"thought_signature":"`...), e.Text...), '"')
		}
	case Call:
		c.out = append(c.out, `"tool_calls":[{"index":`...)
		c.out = append(strconv.AppendInt(c.out, e.Index, 10), `,"id":"`...)
		c.out = append(append(append(c.out, e.ID...), `","type":"function","function":{"name":"`...), e.Name...)
		c.out = append(append(append(c.out, `","arguments":"`...), e.Text...), `"}}]`...)
	case Arguments, NoArguments:
		c.out = append(c.out, `"tool_calls":[{"index":`...)
		c.out = append(strconv.AppendInt(c.out, e.Index, 10), `,"function":{"arguments":"`...)
		if e.Kind == NoArguments {
			c.out = append(c.out, noArguments...)
		}
		c.out = append(append(c.out, e.Text...), `"}}]`...)
	case Image:
		c.out = append(append(c.out, `"images":[{"type":"image_url","image_url":{"url":"data:`...), e.Name...)
		c.out = append(append(append(c.out, ";base64,"...), e.Text...), `"}}]`...)
	case Sources:
		c.out = append(append(append(c.out, `"annotations":[`...), e.Raw...), ']')
	}
	c.shut()
}

// noArguments are those of a call without any: clients parse them.
var noArguments = []byte("{}")

// detailOfText is the type of an entry of reasoning_details that signs a text.
const detailOfText = "reasoning.text"

// appendDetail appends the entry of reasoning_details for a Signature in a stream.
func appendDetail(dst []byte, e *Event) []byte {
	if dst = append(dst, '{'); len(e.ID) > 0 {
		dst = append(append(append(dst, `"id":"`...), e.ID...), `",`...)
	}
	member := `","data":"`
	if e.Type == detailOfText {
		member = `","signature":"`
	}
	dst = append(append(append(dst, `"type":"`...), e.Type...), member...)
	dst = append(append(append(dst, e.Text...), `","format":"`...), e.Format...)
	return append(strconv.AppendInt(append(dst, `","index":`...), e.Index, 10), '}')
}

func (c *chunks) finish(choice int64, reason string, think *Think) {
	if think.Held() {
		c.openText(choice)
		c.out = think.End(c.out)
		c.shutText(nil)
	}
	c.open(choice)
	c.out = append(append(append(c.out, `},"logprobs":null,"finish_reason":"`...), reason...), "\"}]}\n\n"...)
}

// end writes the chunk of the usage that is charged, and [DONE].
func (c *chunks) end(a *Answer) {
	if !a.Chat.HidesUsage() {
		u := a.Settled(a.Reported)
		c.out = append(append(c.out, c.head...), `],"usage":`...)
		c.out = append(a.Chat.AppendCostMember(AppendUsage(c.out, &u), &u), "}\n\n"...)
	}
	c.done()
}

func (c *chunks) done() { c.out = append(c.out, DoneEvent...) }

func (c *chunks) fail(data []byte) {
	fault := FaultOf(data)
	c.out = fault.AppendEvent(c.out)
}

// reset readies w for the next answer.
func (c *chunks) reset() {
	if cap(c.out) > keepOut {
		c.out = nil
	}
	c.out, c.head, c.say = c.out[:0], c.head[:0], c.say[:0]
}
