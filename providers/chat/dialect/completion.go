package dialect

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"farebox/proxy/jsontext"
)

var completions = sync.Pool{New: func() any { return new(completion) }}

// completion writes an answer that comes at once. It keeps the content of each member of a
// message until all choices have ended, since events of several members and choices may come
// in any order.
type completion struct {
	out     []byte
	choices [MaxChoices]wholeChoice
	begun   int
}

// wholeChoice is the message of a choice. Its lists are JSON without brackets.
type wholeChoice struct {
	content, thoughts, details, calls, images, sources []byte

	signature []byte // thought_signature
	logprobs  []byte
	reason    string
	said      bool // the content is a text
	openCall  bool // the last call may still get arguments
}

func (c *completion) output() *[]byte { return &c.out }

func (c *completion) begin(id []byte, model string) {
	c.out = append(append(append(c.out, `{"id":"chatcmpl-`...), id...), `","object":"chat.completion","created":`...)
	c.out = strconv.AppendInt(c.out, time.Now().Unix(), 10)
	c.out = append(jsontext.Object(c.out).Text("model", model), `,"choices":[`...)
}

func (c *completion) role(choice int64) { c.begun = int(choice) + 1 }

func (c *completion) text(choice int64, text, logprobs []byte, think *Think) {
	m := &c.choices[choice]
	if logprobs != nil {
		m.logprobs = append(m.logprobs[:0], logprobs...)
	}
	if text == nil {
		return
	}
	m.said = true
	if think != nil {
		m.content = think.Filter(m.content, text)
	} else {
		m.content = append(m.content, text...)
	}
}

func (c *completion) event(e *Event) {
	m := &c.choices[e.Choice]
	switch e.Kind {
	case Thought:
		m.thoughts = append(m.thoughts, e.Text...)
	case Signature:
		m.detail(e)
	case Call:
		m.endCall()
		m.calls = append(append(append(comma(m.calls), `{"id":"`...), e.ID...), `","type":"function","function":{"name":"`...)
		m.calls = append(append(append(m.calls, e.Name...), `","arguments":"`...), e.Text...)
		m.openCall = true
	case Arguments:
		m.calls = append(m.calls, e.Text...)
	case NoArguments:
		m.calls = append(m.calls, noArguments...)
	case Image:
		m.images = append(append(comma(m.images), `{"type":"image_url","image_url":{"url":"data:`...), e.Name...)
		m.images = append(append(append(m.images, ";base64,"...), e.Text...), `"}}`...)
	case Sources:
		m.sources = append(comma(m.sources), e.Raw...)
	}
}

func comma(list []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return list
}

func (w *wholeChoice) endCall() {
	if w.openCall {
		w.calls, w.openCall = append(w.calls, `"}}`...), false
	}
}

func (w *wholeChoice) detail(e *Event) {
	b := append(append(append(comma(w.details), `{"type":"`...), e.Type...), '"')
	name := `,"data":"`
	if e.Type == detailOfText {
		b = append(append(append(b, `,"text":"`...), e.Raw...), '"')
		name = `,"signature":"`
	}
	if len(e.ID) > 0 {
		b = append(append(append(b, `,"id":"`...), e.ID...), '"')
	}
	if e.Text != nil {
		b = append(append(append(b, name...), e.Text...), '"')
	}
	b = append(append(b, `,"format":"`...), e.Format...)
	w.details = append(strconv.AppendInt(append(b, `","index":`...), e.Index, 10), '}')
	if e.Signed {
		w.signature = append(w.signature[:0], e.Text...)
	}
}

func (c *completion) finish(choice int64, reason string, think *Think) {
	m := &c.choices[choice]
	m.endCall()
	m.content, m.reason = think.End(m.content), reason
}

func (c *completion) end(a *Answer) {
	if said := a.Chat.Said; said != nil {
		c.choices[0].fill(said)
		said.ID, said.Usage = bytes.Clone(a.ID), a.Settled(true)
		said.Usage.Seen = true
		return
	}
	for i := range c.choices[:c.begun] {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = c.choices[i].append(c.out, int64(i))
	}
	u := a.Settled(true)
	c.out = append(AppendUsage(append(c.out, `],"usage":`...), &u), '}')
}

// fill gives said the message of a choice.
func (w *wholeChoice) fill(said *Completion) {
	list := func(of []byte) []byte {
		if len(of) == 0 {
			return nil
		}
		return append(append([]byte{'['}, of...), ']')
	}
	if said.Said = true; w.said {
		said.Content = append(append([]byte{'"'}, w.content...), '"')
	}
	said.Thought, said.Details = bytes.Clone(w.thoughts), list(w.details)
	said.Annotations, said.calls = list(w.sources), list(w.calls)
	said.Logprobs, said.Reason = bytes.Clone(logprobsOf(w.logprobs)), []byte(w.reason)
}

func (w *wholeChoice) append(b []byte, index int64) []byte {
	b = jsontext.Object(append(b, '{')).Int("index", index)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	if w.said {
		b = append(append(append(b, '"'), w.content...), '"')
	} else {
		b = append(b, "null"...)
	}
	member := func(name string, value []byte, end string) {
		if len(value) > 0 {
			b = append(append(append(b, name...), value...), end...)
		}
	}
	member(`,"annotations":[`, w.sources, "]")
	member(`,"reasoning_content":"`, w.thoughts, `"`)
	member(`,"reasoning_details":[`, w.details, "]")
	member(`,"thought_signature":"`, w.signature, `"`)
	member(`,"tool_calls":[`, w.calls, "]")
	member(`,"images":[`, w.images, "]")
	b = append(b, `},"logprobs":`...)
	if len(w.logprobs) > 0 {
		b = append(b, w.logprobs...)
	} else {
		b = append(b, "null"...)
	}
	return append(append(append(b, `,"finish_reason":"`...), w.reason...), `"}`...)
}

func (c *completion) done()       {}
func (c *completion) fail([]byte) {}

// reset readies w for the next answer and gives back large buffers.
func (c *completion) reset() {
	c.out = nil
	for i := range c.choices[:c.begun] {
		m := &c.choices[i]
		*m = wholeChoice{content: kept(m.content), thoughts: kept(m.thoughts), details: kept(m.details), calls: kept(m.calls),
			images: kept(m.images), sources: kept(m.sources), signature: kept(m.signature), logprobs: kept(m.logprobs)}
	}
	c.begun = 0
}

func kept(b []byte) []byte {
	if cap(b) > keepOut {
		return nil
	}
	return b[:0]
}
