package dialect

import (
	"strconv"
	"sync"
	"time"

	"farebox/proxy/jsontext"
)

var completions = sync.Pool{New: func() any { return new(completion) }}

// completion writes an answer as one chat completion. What each member of a message becomes is
// kept until all choices have ended, since events of several members and choices may come
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

func (w *completion) output() *[]byte { return &w.out }

func (w *completion) begin(id []byte, model string) {
	w.out = append(append(append(w.out, `{"id":"chatcmpl-`...), id...), `","object":"chat.completion","created":`...)
	w.out = strconv.AppendInt(w.out, time.Now().Unix(), 10)
	w.out = append(jsontext.Object(w.out).Text("model", model), `,"choices":[`...)
}

func (w *completion) role(choice int64) { w.begun = int(choice) + 1 }

func (w *completion) text(choice int64, text, logprobs []byte, think *Think) {
	m := &w.choices[choice]
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

func (w *completion) event(e *Event) {
	m := &w.choices[e.Choice]
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
		m.calls = append(m.calls, "{}"...)
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

func (m *wholeChoice) endCall() {
	if m.openCall {
		m.calls, m.openCall = append(m.calls, `"}}`...), false
	}
}

func (m *wholeChoice) detail(e *Event) {
	b := append(append(append(comma(m.details), `{"type":"`...), e.Type...), '"')
	name := `,"data":"`
	if e.Type == "reasoning.text" {
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
	m.details = append(strconv.AppendInt(append(b, `","index":`...), e.Index, 10), '}')
	if e.Signed {
		m.signature = append(m.signature[:0], e.Text...)
	}
}

func (w *completion) finish(choice int64, reason string, think *Think) {
	m := &w.choices[choice]
	m.endCall()
	m.content, m.reason = think.End(m.content), reason
}

func (w *completion) end(a *Answer) {
	for i := range w.choices[:w.begun] {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = w.choices[i].append(w.out, int64(i))
	}
	u := a.Settled(true)
	w.out = append(AppendUsage(append(w.out, `],"usage":`...), &u), '}')
}

func (m *wholeChoice) append(b []byte, index int64) []byte {
	b = jsontext.Object(append(b, '{')).Int("index", index)
	b = append(b, `,"message":{"role":"assistant","content":`...)
	if m.said {
		b = append(append(append(b, '"'), m.content...), '"')
	} else {
		b = append(b, "null"...)
	}
	member := func(name string, value []byte, end string) {
		if len(value) > 0 {
			b = append(append(append(b, name...), value...), end...)
		}
	}
	member(`,"annotations":[`, m.sources, "]")
	member(`,"reasoning_content":"`, m.thoughts, `"`)
	member(`,"reasoning_details":[`, m.details, "]")
	member(`,"thought_signature":"`, m.signature, `"`)
	member(`,"tool_calls":[`, m.calls, "]")
	member(`,"images":[`, m.images, "]")
	b = append(b, `},"logprobs":`...)
	if len(m.logprobs) > 0 {
		b = append(b, m.logprobs...)
	} else {
		b = append(b, "null"...)
	}
	return append(append(append(b, `,"finish_reason":"`...), m.reason...), `"}`...)
}

func (w *completion) done()       {}
func (w *completion) fail([]byte) {}

// reset readies w for the next answer and gives back what grew large.
func (w *completion) reset() {
	w.out = nil
	for i := range w.choices[:w.begun] {
		m := &w.choices[i]
		*m = wholeChoice{content: kept(m.content), thoughts: kept(m.thoughts), details: kept(m.details), calls: kept(m.calls),
			images: kept(m.images), sources: kept(m.sources), signature: kept(m.signature), logprobs: kept(m.logprobs)}
	}
	w.begun = 0
}

func kept(b []byte) []byte {
	if cap(b) > keepOut {
		return nil
	}
	return b[:0]
}
