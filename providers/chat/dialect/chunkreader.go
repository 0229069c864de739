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
	// Call begins a call or adds to one. The index is -1 where the upstream sends no index.
	Call(index int64, custom bool, id, name, input []byte)
	// Stop is a finish_reason, and the stop sequence where the upstream names it.
	Stop(reason, sequence []byte)
	// Fault ends the answer with an error. The reader has Ended afterwards.
	Fault(code, message []byte)
	// End ends the answer as the model did. The reader has Ended afterwards.
	End()
}

const (
	// maxChunk is the largest chunk that is held until it is whole. A whole call may be in one.
	maxChunk    = 8 << 20
	faultCode   = "upstream_error"
	faultTooBig = "The model's answer has an event that is too large."
)

// ChunkReader reads the chunks of a chat completion for a ChunkWriter. It counts no tokens:
// the chunks were metered before. Usage, Cost and Parameters are the last ones of the answer.
type ChunkReader struct {
	// Brand is the word in <brand>_parameters; empty: they are not read.
	Brand string
	// Ended says that nothing more is read.
	Ended bool

	Usage            Usage
	Cost, Parameters []byte

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
	if r.Ended {
		return
	}
	r.events.Most = maxChunk
	r.events.Feed(chunks)
	for r.events.Next() {
		r.readChunk(w, r.events.Data)
	}
	if r.events.TooLarge() && !r.Ended {
		w.Fault([]byte(faultCode), []byte(faultTooBig)) // the rest must not pass for a whole answer
	}
	r.events.Keep()
}

// Finish reads the rest at the end of the chunks.
func (r *ChunkReader) Finish(w ChunkWriter) {
	if !r.Ended && r.events.AtEnd() {
		r.readChunk(w, r.events.Data)
	}
	if !r.Ended {
		w.End()
	}
}

// Reset readies r for another answer.
func (r *ChunkReader) Reset() {
	r.events.Reset()
	r.usual.forget()
	*r = ChunkReader{events: r.events, usual: r.usual, Cost: r.Cost[:0], Parameters: r.Parameters[:0]}
}

func (r *ChunkReader) readChunk(w ChunkWriter, data []byte) {
	if r.Ended || len(data) == 0 || r.usual.match(w, data) {
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
	var id, model, choices, fault, parameters []byte
	for m := range jsontext.Members(data, 1) {
		value := data[m.From:m.To]
		switch string(m.Key) {
		case "id":
			id = jsontext.Quoted(value)
		case "model":
			model = value
		case "choices":
			choices = value
		case "usage":
			r.usage(value)
		case "x_groq":
			r.usage(jsontext.MemberOf(value, "usage"))
		case "error":
			if value[0] == '{' || value[0] == '"' {
				fault = value
			}
		case "cost":
			r.Cost = append(r.Cost[:0], value...)
			r.other()
		default:
			if IsParameters(m.Key, r.Brand) && value[0] == '{' {
				r.Parameters = append(r.Parameters[:0], value...)
				parameters = r.Parameters
				r.other()
			}
		}
	}
	if fault != nil {
		if fault[0] == '"' {
			w.Fault([]byte(faultCode), fault[1:len(fault)-1])
		} else {
			w.Fault(jsontext.StringIn(fault, "code"), jsontext.StringIn(fault, "message"))
		}
		return
	}
	if !r.begun {
		r.begun = true
		w.Begin(id, model, parameters)
	}
	if len(choices) > 0 && choices[0] == '[' {
		for one := range jsontext.Elements(choices) {
			if one[0] == '{' {
				r.choice(w, one)
			}
		}
	}
	if r.facts == 1 && r.only.kind != factOther && !r.Ended {
		r.usual.learn(data, &r.only)
	}
}

// IsParameters says that a member of a completion is the parameters of a brand.
func IsParameters(name []byte, brand string) bool {
	const tail = "_parameters"
	n := len(name) - len(tail)
	return n > 0 && string(name[n:]) == tail && string(name[:n]) == brand
}

// usage keeps the last usage that says something.
func (r *ChunkReader) usage(value []byte) {
	if len(value) > 0 && value[0] == '{' {
		ReadUsage(value, &r.Usage)
		r.other()
	}
}

func (r *ChunkReader) choice(w ChunkWriter, choice []byte) {
	var delta, logprobs, reason, sequence []byte
	for m := range jsontext.Members(choice, 1) {
		value := choice[m.From:m.To]
		switch string(m.Key) {
		case "index":
			if n, _ := jsontext.ReadCount(value); n != 0 {
				r.other()
				return // one answer was asked for
			}
		case "delta":
			delta = value
		case "logprobs":
			logprobs = jsontext.MemberOf(value, "content")
		case "usage":
			r.usage(value)
		case "finish_reason":
			reason = jsontext.Quoted(value)
		case "stop_reason":
			sequence = jsontext.Quoted(value)
		}
	}
	if len(logprobs) > 2 && logprobs[0] == '[' {
		r.other()
		logprobs = bytes.TrimSpace(logprobs[1 : len(logprobs)-1])
	} else {
		logprobs = nil
	}
	if len(delta) > 0 && delta[0] == '{' {
		r.delta(w, delta, logprobs)
	}
	if len(reason) > 0 && !r.Ended {
		r.other()
		w.Stop(reason, sequence)
	}
}

func (r *ChunkReader) delta(w ChunkWriter, delta, logprobs []byte) {
	var thought, details, content, refusal, annotations, calls []byte
	for m := range jsontext.Members(delta, 1) {
		value := delta[m.From:m.To]
		switch string(m.Key) {
		case "content":
			content = value
		case "reasoning_content", "reasoning":
			// Some servers send the same text under both names.
			if text := jsontext.Quoted(value); len(text) > 0 {
				thought = text
			}
		case "reasoning_details":
			details = value
		case "refusal":
			refusal = jsontext.Quoted(value)
		case "annotations":
			annotations = value
		case "tool_calls":
			calls = value
		}
	}
	r.reasoned = r.reasoned || thought != nil
	r.thought(w, thought)
	if len(details) > 0 && details[0] == '[' {
		r.details(w, details)
	}
	r.content(w, content, logprobs)
	if len(refusal) > 0 && !r.Ended {
		r.other()
		w.Refusal(refusal)
	}
	r.each(annotations, w.Source)
	r.each(calls, func(entry []byte) { r.call(w, entry) })
}

// each calls f with the objects of a list until the answer has Ended.
func (r *ChunkReader) each(list []byte, f func(entry []byte)) {
	if len(list) == 0 || list[0] != '[' {
		return
	}
	for entry := range jsontext.Elements(list) {
		if r.Ended {
			return
		}
		if entry[0] == '{' {
			r.only = fact{}
			r.facts++
			f(entry)
		}
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
	for part := range jsontext.Elements(content) {
		if part[0] != '{' {
			continue
		}
		inner := jsontext.MemberOf(part, "thinking")
		switch {
		case len(inner) == 0:
			r.text(w, jsontext.StringIn(part, "text"), logprobs)
		case inner[0] == '[':
			for one := range jsontext.Elements(inner) {
				if one[0] == '{' {
					r.thought(w, jsontext.StringIn(one, "text"))
				}
			}
		default:
			r.thought(w, jsontext.Quoted(inner))
		}
	}
}

func (r *ChunkReader) text(w ChunkWriter, text, logprobs []byte) {
	if len(text) == 0 && len(logprobs) == 0 || r.Ended {
		return
	}
	r.facts, r.only = r.facts+1, fact{kind: factText, text: text}
	w.Text(text, logprobs)
}

func (r *ChunkReader) thought(w ChunkWriter, text []byte) {
	if len(text) == 0 || r.Ended {
		return
	}
	r.facts, r.only = r.facts+1, fact{kind: factThought, text: text}
	w.Thought(text)
}

// details reads entries of reasoning_details. Their texts are thoughts, unless the answer
// has reasoning_content.
func (r *ChunkReader) details(w ChunkWriter, list []byte) {
	for at, ok := r.detail.Next(list, 1); ok && !r.Ended; at, ok = r.detail.Next(list, at) {
		r.other()
		if !r.reasoned {
			r.thought(w, r.detail.Text)
		}
		if len(r.detail.Signature) > 0 || len(r.detail.Data) > 0 {
			if !r.Ended {
				w.Detail(&r.detail)
			}
		}
	}
}

// call reads an entry of tool_calls.
func (r *ChunkReader) call(w ChunkWriter, entry []byte) {
	var id, function []byte
	index, custom, input := int64(-1), false, "arguments"
	for m := range jsontext.Members(entry, 1) {
		value := entry[m.From:m.To]
		switch string(m.Key) {
		case "index":
			if n, ok := jsontext.ReadCount(value); ok {
				index = n
			}
		case "id":
			id = jsontext.Quoted(value)
		case "function":
			function = value
		case "custom":
			function, custom, input = value, true, "input"
		}
	}
	if len(function) == 0 || function[0] != '{' {
		return
	}
	name, text := jsontext.StringIn(function, "name"), jsontext.StringIn(function, input)
	if len(id) == 0 && len(name) == 0 && len(text) > 0 {
		r.only = fact{kind: factInput, text: text, index: index}
	}
	w.Call(index, custom, id, name, text)
}
