package dialect

import (
	"bytes"
	"iter"

	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Choice is a choice of a chat completion, or of a chunk of one. Texts are escaped as they are
// between their quotes, all else is JSON. Absent and null members are nil. Of members that come
// twice the last one holds.
type Choice struct {
	// Said says that there is a message, or a delta.
	Said bool
	// Thought and Refusal are texts, Content is a text in its quotes or a list of parts.
	Thought, Refusal, Content []byte
	// Details is a list. Of Annotations and calls only lists of objects count.
	Details, Annotations, calls []byte
	// Logprobs are elements with commas between them.
	Logprobs []byte
	// Reason is the finish_reason, Sequence the stop sequence where the upstream names it.
	Reason, Sequence []byte

	index int64
	usage []byte
}

// Completion is a whole answer with one choice, such as the first of a chat completion.
type Completion struct {
	Choice
	ID []byte // a text
	// Model, Cost and Parameters are JSON; nil if absent. The parameters are an object.
	Model, Cost, Parameters []byte
	Usage                   Usage
}

// completionTop are the members of a chat completion, or of a chunk of one. The id is a text.
type completionTop struct {
	id, model, choices, usage, groq, fault, cost, parameters []byte
}

// noMembers is the Shape for a scan that only checks a body.
var noMembers = scan.NewShape()

// Read reads a completion whose parameters have a brand; false: it has no choice, or is not
// a JSON object.
func (c *Completion) Read(body []byte, brand string) bool {
	var doc scan.Document
	if doc.Skim(body, noMembers) != nil {
		return false
	}
	t := readTop(body[jsontext.SkipSpace(body, 0):], brand)
	if len(t.choices) == 0 || t.choices[0] != '[' {
		return false
	}
	from, to, ok := jsontext.NextElement(t.choices, 1)
	if !ok || t.choices[from] != '{' {
		return false
	}
	*c = Completion{ID: t.id, Model: t.model, Cost: t.cost, Parameters: t.parameters}
	c.readChoice(t.choices[from:to], "message")
	for _, usage := range [][]byte{t.usage, c.usage, t.groq} {
		if ReadUsage(usage, &c.Usage); c.Usage.Seen {
			break
		}
	}
	return true
}

func readTop(object []byte, brand string) (t completionTop) {
	for m := range jsontext.Members(object, 1) {
		value := object[m.From:m.To]
		if value[0] == 'n' {
			continue
		}
		switch string(m.Key) {
		case "id":
			t.id = jsontext.Quoted(value)
		case "model":
			t.model = value
		case "choices":
			t.choices = value
		case "usage":
			t.usage = value
		case "x_groq":
			t.groq = jsontext.MemberOf(value, "usage")
		case "error":
			t.fault = value
		case "cost":
			t.cost = value
		default:
			if value[0] == '{' && isParameters(m.Key, brand) {
				t.parameters = value
			}
		}
	}
	return t
}

// isParameters says that a member of a completion is the parameters of a brand.
func isParameters(name []byte, brand string) bool {
	const tail = "_parameters"
	n := len(name) - len(tail)
	return n > 0 && string(name[n:]) == tail && string(name[:n]) == brand
}

// readChoice reads a choice whose text is in a member, message or delta.
func (c *Choice) readChoice(choice []byte, member string) {
	for m := range jsontext.Members(choice, 1) {
		value := choice[m.From:m.To]
		switch string(m.Key) {
		case "index":
			c.index, _ = jsontext.ReadCount(value)
		case "logprobs":
			if list := logprobsOf(value); list != nil {
				c.Logprobs = list
			}
		case "usage":
			c.usage = value
		case "finish_reason":
			c.Reason = jsontext.Quoted(value)
		case "stop_reason":
			c.Sequence = jsontext.Quoted(value)
		default:
			if string(m.Key) == member && value[0] == '{' {
				c.message(value)
			}
		}
	}
}

// logprobsOf are the elements of logprobs of chat completions; nil: there are none.
func logprobsOf(value []byte) []byte {
	if list := jsontext.MemberOf(value, "content"); len(list) > 2 && list[0] == '[' {
		return bytes.TrimSpace(list[1 : len(list)-1])
	}
	return nil
}

func (c *Choice) message(object []byte) {
	c.Said = true
	for m := range jsontext.Members(object, 1) {
		value := object[m.From:m.To]
		if value[0] == 'n' {
			continue
		}
		switch string(m.Key) {
		case "content":
			c.Content = value
		case "reasoning_content", "reasoning":
			// Some servers send the same text under both names.
			if text := jsontext.Quoted(value); len(text) > 0 {
				c.Thought = text
			}
		case "reasoning_details":
			if value[0] == '[' {
				c.Details = value
			}
		case "refusal":
			c.Refusal = jsontext.Quoted(value)
		case "annotations":
			c.Annotations = value
		case "tool_calls":
			c.calls = value
		}
	}
}

// ToolCall is an entry of tool_calls: a call, or the part of one in a chunk. Its texts are
// escaped.
type ToolCall struct {
	Index           int64 // -1 if absent
	Custom          bool
	ID, Name, Input []byte
}

// Append appends a call as chat completions have it.
func (c *ToolCall) Append(dst []byte) []byte {
	dst = append(append(append(dst, `{"id":"`...), c.ID...), `","type":"function","function":{"name":"`...)
	dst = append(append(append(dst, c.Name...), `","arguments":"`...), c.Input...)
	return append(dst, `"}}`...)
}

// ToolCalls are the calls of a choice.
func (c *Choice) ToolCalls() iter.Seq[ToolCall] {
	return func(yield func(ToolCall) bool) {
		for entry := range jsontext.Objects(c.calls) {
			if call, ok := readToolCall(entry); ok && !yield(call) {
				return
			}
		}
	}
}

// Add adds the service's own members to a whole answer.
func (c *Completion) Add(a *Additions) {
	if text := jsontext.Quoted(c.Content); a.Cite != nil && len(text) > 0 {
		rest, sources := a.Cite(text, true)
		c.Content = append(append([]byte{'"'}, rest...), '"')
		c.Annotations = joinLists(sources, c.Annotations)
	}
	if d := a.Documents; d != nil {
		c.calls = joinLists(d.Append(nil), c.calls)
	}
	if c.Parameters == nil {
		c.Parameters = a.Parameters
	}
}

// joinLists is a list of elements, which have commas between them, and of those of list.
func joinLists(elements, list []byte) []byte {
	if len(elements) == 0 {
		return list
	}
	joined := append([]byte{'['}, elements...)
	if len(list) > 0 && list[0] == '[' {
		if rest := bytes.TrimSpace(list[1 : len(list)-1]); len(rest) > 0 {
			joined = append(append(joined, ','), rest...)
		}
	}
	return append(joined, ']')
}

func readToolCall(entry []byte) (c ToolCall, ok bool) {
	var function []byte
	c.Index = -1
	input := "arguments"
	for m := range jsontext.Members(entry, 1) {
		value := entry[m.From:m.To]
		switch string(m.Key) {
		case "index":
			if n, ok := jsontext.ReadCount(value); ok {
				c.Index = n
			}
		case "id":
			c.ID = jsontext.Quoted(value)
		case "function":
			function = value
		case "custom":
			function, c.Custom, input = value, true, "input"
		}
	}
	if len(function) == 0 || function[0] != '{' {
		return c, false
	}
	c.Name, c.Input = jsontext.StringIn(function, "name"), jsontext.StringIn(function, input)
	return c, true
}
