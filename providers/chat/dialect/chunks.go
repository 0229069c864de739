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
	// finish ends a choice with what think still holds.
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
func (w *silent) output() *[]byte                  { return &w.out }

// chunks writes the events of an answer as chunks of a chat completion.
type chunks struct {
	out  []byte
	head []byte // of every chunk, up to its choices
	say  []byte // …up to the text of the first choice
}

func (w *chunks) output() *[]byte { return &w.out }

// begin makes the head.
func (w *chunks) begin(id []byte, model string) {
	w.head = append(append(w.head[:0], `data: {"id":"chatcmpl-`...), id...)
	w.head = append(w.head, `","object":"chat.completion.chunk","created":`...)
	w.head = strconv.AppendInt(w.head, time.Now().Unix(), 10)
	w.head = jsontext.Object(w.head).Text("model", model)
	w.head = append(w.head, `,"choices":[`...)
	w.say = append(append(w.say[:0], w.head...), `{"index":0,"delta":{"content":"`...)
}

// open begins a chunk's delta object, shut ends it.
func (w *chunks) open(choice int64) {
	w.out = append(append(w.out, w.head...), `{"index":`...)
	w.out = append(strconv.AppendInt(w.out, choice, 10), `,"delta":{`...)
}

func (w *chunks) shut() {
	w.out = append(w.out, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
}

func (w *chunks) role(choice int64) {
	w.open(choice)
	w.out = append(w.out, `"role":"assistant","content":""`...)
	w.shut()
}

// openText begins a chunk with text of the answer, shutText ends it.
func (w *chunks) openText(choice int64) {
	if choice == 0 {
		w.out = append(w.out, w.say...)
		return
	}
	w.open(choice)
	w.out = append(w.out, `"content":"`...)
}

func (w *chunks) shutText(logprobs []byte) {
	if logprobs == nil {
		w.out = append(w.out, "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
		return
	}
	w.out = append(append(w.out, `"},"logprobs":`...), logprobs...)
	w.out = append(w.out, ",\"finish_reason\":null}]}\n\n"...)
}

func (w *chunks) text(choice int64, text, logprobs []byte, think *Think) {
	w.openText(choice)
	if think != nil {
		w.out = think.Filter(w.out, text)
	} else {
		w.out = append(w.out, text...)
	}
	w.shutText(logprobs)
}

func (w *chunks) event(e *Event) {
	w.open(e.Choice)
	switch e.Kind {
	case Thought:
		w.out = append(append(append(w.out, `"reasoning_content":"`...), e.Text...), '"')
	case Signature:
		w.sealed(e)
	case Call:
		w.out = append(w.out, `"tool_calls":[{"index":`...)
		w.out = append(strconv.AppendInt(w.out, e.Index, 10), `,"id":"`...)
		w.out = append(append(append(w.out, e.ID...), `","type":"function","function":{"name":"`...), e.Name...)
		w.out = append(append(append(w.out, `","arguments":"`...), e.Text...), `"}}]`...)
	case Arguments, NoArguments:
		w.out = append(w.out, `"tool_calls":[{"index":`...)
		w.out = append(strconv.AppendInt(w.out, e.Index, 10), `,"function":{"arguments":"`...)
		if e.Kind == NoArguments {
			w.out = append(w.out, "{}"...) // clients parse what they are sent
		}
		w.out = append(append(w.out, e.Text...), `"}}]`...)
	case Image:
		w.out = append(append(w.out, `"images":[{"type":"image_url","image_url":{"url":"data:`...), e.Name...)
		w.out = append(append(append(w.out, ";base64,"...), e.Text...), `"}}]`...)
	case Sources:
		w.out = append(append(append(w.out, `"annotations":[`...), e.Raw...), ']')
	}
	w.shut()
}

func (w *chunks) sealed(e *Event) {
	w.out = append(w.out, `"reasoning_details":[{`...)
	if len(e.ID) > 0 {
		w.out = append(append(append(w.out, `"id":"`...), e.ID...), `",`...)
	}
	member := `","data":"`
	if e.Type == "reasoning.text" {
		member = `","signature":"`
	}
	w.out = append(append(append(w.out, `"type":"`...), e.Type...), member...)
	w.out = append(append(append(w.out, e.Text...), `","format":"`...), e.Format...)
	w.out = append(strconv.AppendInt(append(w.out, `","index":`...), e.Index, 10), "}]"...)
	if e.Signed {
		w.out = append(append(append(w.out, `,"thought_signature":"`...), e.Text...), '"')
	}
}

func (w *chunks) finish(choice int64, reason string, think *Think) {
	if think.Held() {
		w.openText(choice)
		w.out = think.End(w.out)
		w.shutText(nil)
	}
	w.open(choice)
	w.out = append(append(append(w.out, `},"logprobs":null,"finish_reason":"`...), reason...), "\"}]}\n\n"...)
}

// end writes the chunk of the usage that is charged, and [DONE].
func (w *chunks) end(a *Answer) {
	if !a.Chat.HidesUsage() {
		u := a.Settled(a.Reported)
		w.out = append(append(w.out, w.head...), `],"usage":`...)
		w.out = append(a.Chat.AppendCost(AppendUsage(w.out, &u), &u), "}\n\n"...)
	}
	w.done()
}

func (w *chunks) done() { w.out = append(w.out, DoneEvent...) }

func (w *chunks) fail(data []byte) {
	fault := FaultOf(data)
	w.out = fault.AppendEvent(w.out)
}

// reset readies w for the next answer.
func (w *chunks) reset() {
	if cap(w.out) > keepOut {
		w.out = nil
	}
	w.out, w.head, w.say = w.out[:0], w.head[:0], w.say[:0]
}
