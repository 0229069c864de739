package dialect

import (
	"bytes"

	"farebox/proxy/jsontext"
)

// ChunkWriter writes the chunks of a chat completion in a client's form. Texts are
// escaped as they are between their quotes. All slices are valid during the call.
type ChunkWriter interface {
	// Begin comes once, before all else of the first chunk. The model and the parameters
	// are JSON values; nil if absent.
	Begin(id, model, parameters []byte)
	// Thought adds to the model's thoughts.
	Thought(text []byte)
	// Detail is an entry of reasoning_details that its maker wants back.
	Detail(d *Detail)
	// Text adds to the model's text. The elements of logprobs have commas between them.
	Text(text, logprobs []byte)
	// Refusal adds to why the model does not answer.
	Refusal(text []byte)
	// Source is an entry of annotations.
	Source(entry []byte)
	// Call begins a call or adds to one. The index is -1 where the upstream sends no index: a name
	// begins a call then, and all else adds to the last one.
	Call(index int64, custom bool, id, name, input []byte)
	// Stop is a finish_reason, and the stop sequence where the upstream names it.
	Stop(reason, sequence []byte)
	// Fault ends the answer with an error, and End as the model did. It has Ended afterwards.
	Fault(f *Fault)
	End()
}

const (
	// maxChunk is the largest chunk that is held until it is whole. A whole call may be in one.
	maxChunk    = 8 << 20
	faultTooBig = "The model's answer has an event that is too large."
)

// ChunkReader reads the chunks of a chat completion for a ChunkWriter. It counts no tokens:
// the chunks were metered before.
type ChunkReader struct {
	// Brand is the word in <brand>_parameters; empty: they are not read.
	Brand string

	to       *FormState
	events   Events
	usual    fastPathChunk
	begun    bool
	reasoned bool // thoughts come as reasoning_content, whose texts details may repeat
	detail   Detail

	facts int // of this chunk
	only  fact
}

// fact is one statement of a chunk.
type fact struct {
	kind  factKind
	text  []byte
	index int64 // of a call
}

type factKind uint8

const (
	factOther factKind = iota
	factText
	factThought
	factInput
)

// Pass reads the next bytes of the chunks, cut anywhere.
func (r *ChunkReader) Pass(w ChunkWriter, chunks []byte) {
	if r.to.Ended {
		return
	}
	r.events.Most = maxChunk
	r.events.Feed(chunks)
	for r.events.Next() {
		r.readChunk(w, r.events.Data)
	}
	if r.events.TooLarge() && !r.to.Ended {
		w.Fault(&Fault{Code: CodeUpstream, Message: faultTooBig}) // the rest must not pass for a whole answer
	}
	r.events.Keep()
}

// Finish reads the rest at the end of the chunks.
func (r *ChunkReader) Finish(w ChunkWriter) {
	if !r.to.Ended && r.events.AtEnd() {
		r.readChunk(w, r.events.Data)
	}
	if !r.to.Ended {
		w.End()
	}
}

// Reset readies r for another answer.
func (r *ChunkReader) Reset() {
	r.events.Reset()
	r.usual.forget()
	*r = ChunkReader{events: r.events, usual: r.usual}
}

func (r *ChunkReader) readChunk(w ChunkWriter, data []byte) {
	if r.to.Ended || len(data) == 0 || r.usual.match(w, data) {
		return
	}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
		r.chunk(w, data)
	} else if string(data) == "[DONE]" {
		w.End()
	}
}

// other notes that the chunk says more than one text.
func (r *ChunkReader) other() { r.facts += 2 }

func (r *ChunkReader) chunk(w ChunkWriter, data []byte) {
	r.facts = 0
	t := readTop(data, r.Brand)
	r.usage(t.usage)
	r.usage(t.groq)
	if t.cost != nil {
		r.to.Cost = append(r.to.Cost[:0], t.cost...)
		r.other()
	}
	if t.parameters != nil {
		r.to.Parameters = append(r.to.Parameters[:0], t.parameters...)
		t.parameters = r.to.Parameters
		r.other()
	}
	if len(t.fault) > 0 && (t.fault[0] == '"' || t.fault[0] == '{') {
		w.Fault(faultIn(t.fault))
		return
	}
	if !r.begun {
		r.begun = true
		w.Begin(t.id, t.model, t.parameters)
	}
	for one := range jsontext.Objects(t.choices) {
		r.choice(w, one)
	}
	if r.facts == 1 && r.only.kind != factOther && !r.to.Ended {
		r.usual.learn(data, &r.only)
	}
}

// faultIn is an error that a chunk has, a text or an object.
func faultIn(value []byte) *Fault {
	if value[0] == '"' {
		return &Fault{Code: CodeUpstream, Message: plainText(value[1 : len(value)-1])}
	}
	return &Fault{Code: plainText(jsontext.StringIn(value, "code")), Message: plainText(jsontext.StringIn(value, "message"))}
}

func plainText(escaped []byte) string { return string(jsontext.AppendUnescaped(nil, escaped)) }

// usage keeps the last usage that says something.
func (r *ChunkReader) usage(value []byte) {
	if len(value) > 0 && value[0] == '{' {
		ReadUsage(value, &r.to.Usage)
		r.other()
	}
}

func (r *ChunkReader) choice(w ChunkWriter, choice []byte) {
	var c Choice
	if c.readChoice(choice, "delta"); c.index != 0 {
		r.other()
		return // one answer was asked for
	}
	r.usage(c.usage)
	if c.Logprobs != nil {
		r.other()
	}
	if c.Said {
		r.delta(w, &c)
	}
	if len(c.Reason) > 0 && !r.to.Ended {
		r.other()
		w.Stop(c.Reason, c.Sequence)
	}
}

func (r *ChunkReader) delta(w ChunkWriter, c *Choice) {
	r.reasoned = r.reasoned || c.Thought != nil
	r.thought(w, c.Thought)
	if c.Details != nil {
		r.details(w, c.Details)
	}
	r.content(w, c.Content, c.Logprobs)
	if len(c.Refusal) > 0 && !r.to.Ended {
		r.other()
		w.Refusal(c.Refusal)
	}
	for entry := range jsontext.Objects(c.Annotations) {
		if r.to.Ended {
			return
		}
		r.other()
		w.Source(entry)
	}
	for call := range c.ToolCalls() {
		if r.to.Ended {
			return
		}
		r.facts, r.only = r.facts+1, fact{}
		if !call.Custom && len(call.ID) == 0 && len(call.Name) == 0 && len(call.Input) > 0 {
			r.only = fact{kind: factInput, text: call.Input, index: call.Index}
		}
		w.Call(call.Index, call.Custom, call.ID, call.Name, call.Input)
	}
}

// content is a text, or parts of which some are thoughts.
func (r *ChunkReader) content(w ChunkWriter, content, logprobs []byte) {
	if text := jsontext.Quoted(content); text != nil {
		r.text(w, text, logprobs)
	}
	if len(content) == 0 || content[0] != '[' {
		return
	}
	r.other()
	for part := range jsontext.Objects(content) {
		inner := jsontext.MemberOf(part, "thinking")
		switch {
		case len(inner) == 0:
			r.text(w, jsontext.StringIn(part, "text"), logprobs)
		case inner[0] == '[':
			for one := range jsontext.Objects(inner) {
				r.thought(w, jsontext.StringIn(one, "text"))
			}
		default:
			r.thought(w, jsontext.Quoted(inner))
		}
	}
}

func (r *ChunkReader) text(w ChunkWriter, text, logprobs []byte) {
	if len(text) == 0 && len(logprobs) == 0 || r.to.Ended {
		return
	}
	r.facts, r.only = r.facts+1, fact{kind: factText, text: text}
	w.Text(text, logprobs)
}

func (r *ChunkReader) thought(w ChunkWriter, text []byte) {
	if len(text) == 0 || r.to.Ended {
		return
	}
	r.facts, r.only = r.facts+1, fact{kind: factThought, text: text}
	w.Thought(text)
}

// details reads entries of reasoning_details. Their texts are thoughts, unless the answer
// has reasoning_content.
func (r *ChunkReader) details(w ChunkWriter, list []byte) {
	for at, ok := r.detail.Next(list, 1); ok && !r.to.Ended; at, ok = r.detail.Next(list, at) {
		r.other()
		if !r.reasoned {
			r.thought(w, r.detail.Text)
		}
		if len(r.detail.Signature) > 0 || len(r.detail.Data) > 0 {
			if !r.to.Ended {
				w.Detail(&r.detail)
			}
		}
	}
}
