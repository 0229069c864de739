package dialect

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// RequestReader reads a chat request for the writer of another dialect.
type RequestReader struct {
	*Chat
	Drops []int // ids of members that the operator does not send
	Err   error // the first reason why the request cannot be written
}

// NewRequestReader reads a request for a target.
func NewRequestReader(c *Chat, t *Target) RequestReader {
	return RequestReader{Chat: c, Drops: t.Upstream.Drops}
}

// Fail keeps the first reason why the request cannot be written. path is the member in the
// way.
func (r *RequestReader) Fail(path, format string, args ...any) {
	if r.Err == nil {
		r.Err = &Unsupported{Path: path, Text: fmt.Sprintf(format, args...)}
	}
}

// PathOf is the path of a member for Fail. To find it takes as long as the list in which it
// is, so that only the first one is looked for.
func (r *RequestReader) PathOf(i int32) string {
	if r.Err != nil {
		return ""
	}
	return r.Doc.Path(i)
}

// Top is the top member with that id; -1 if absent or if the operator drops it.
func (r *RequestReader) Top(id int) int32 {
	if slices.Contains(r.Drops, id) {
		return -1
	}
	return r.Doc.TopIndex(id)
}

// Number is the text of a top member that is a number; nil if it is not one.
func (r *RequestReader) Number(id int) []byte {
	i := r.Top(id)
	if i < 0 || r.Doc.Fields[i].Kind != scan.Number {
		return nil
	}
	return r.Raw(i)
}

// Messages are the messages that have a role, with it.
func (r *RequestReader) Messages() iter.Seq2[int32, string] {
	return func(yield func(int32, string) bool) {
		for m := range r.elements(r.Doc.TopIndex(ChatMessages)) {
			if role := r.Text(r.Doc.Member(m, MessageRole)); role != nil && !yield(m, string(role)) {
				return
			}
		}
	}
}

// elements are the fields of a list; none if it is not a list.
func (r *RequestReader) elements(list int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if list < 0 || r.Doc.Fields[list].Kind != scan.Array {
			return
		}
		for i := list + 1; i < r.Doc.Fields[list].Next; i = r.Doc.Fields[i].Next {
			if !yield(i) {
				return
			}
		}
	}
}

// Texts are the texts of a message in their quotes, each with its part; -1: it is the whole
// content. Texts of white space alone, which other dialects refuse, are left out.
func (r *RequestReader) Texts(m int32) iter.Seq2[int32, []byte] {
	return func(yield func(int32, []byte) bool) {
		content := r.Doc.Member(m, MessageContent)
		if content >= 0 && r.Doc.Fields[content].Kind == scan.String {
			if raw := r.Raw(content); !IsBlank(raw) {
				yield(-1, raw)
			}
			return
		}
		for p := range r.elements(content) {
			if raw := r.PartText(p); raw != nil && !yield(p, raw) {
				return
			}
		}
	}
}

// PartText is the text of a part or of its refusal, in its quotes; nil if absent or white
// space.
func (r *RequestReader) PartText(p int32) []byte {
	raw := r.Raw(r.Doc.Member(p, PartText))
	if raw == nil {
		raw = r.Raw(r.Doc.Member(p, PartRefusal))
	}
	if len(raw) <= 2 || raw[0] != '"' || IsBlank(raw) {
		return nil
	}
	return raw
}

// Stops are the stop sequences, as JSON.
func (r *RequestReader) Stops() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := r.Top(ChatStop)
		if i >= 0 && r.Doc.Fields[i].Kind == scan.String {
			yield(r.Raw(i))
			return
		}
		if i >= 0 && r.Doc.Fields[i].Kind == scan.Array {
			for one := range jsontext.Elements(r.Raw(i)) {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// Format is the type of response_format, and the JSON schema in it; nil: it has none. Some
// clients put the schema under json_schema itself (addendum, D7).
func (r *RequestReader) Format() (kind string, schema []byte) {
	i := r.Top(ChatResponseFormat)
	if i < 0 {
		return "", nil
	}
	kind = string(r.Text(r.Doc.Member(i, FormatType)))
	holder := r.Doc.Member(i, FormatSchema)
	if kind != "json_schema" || holder < 0 || r.Doc.Fields[holder].Kind != scan.Object {
		return kind, nil
	}
	if at := r.Doc.Member(holder, SchemaSchema); at >= 0 && r.Doc.Fields[at].Kind == scan.Object {
		holder = at
	}
	return kind, r.Raw(holder)
}

// Tools are the tools of type function, each with its function.
func (r *RequestReader) Tools() iter.Seq2[int32, int32] {
	return func(yield func(int32, int32) bool) {
		for tool := range r.elements(r.Top(ChatTools)) {
			f := r.Doc.Member(tool, ToolTarget)
			if f < 0 || r.Text(r.Doc.Member(f, FunctionName)) == nil {
				r.Fail(r.PathOf(tool), "This model takes tools of type function only.")
			} else if !yield(tool, f) {
				return
			}
		}
	}
}

// ToolChoice is auto, none, required, function with the name of the function in its quotes,
// or empty: the model decides.
func (r *RequestReader) ToolChoice() (kind string, name []byte) {
	i := r.Top(ChatToolChoice)
	if i < 0 {
		return "", nil
	}
	text := r.Text(i)
	if r.Doc.Fields[i].Kind == scan.Object {
		text = r.Text(r.Doc.Member(i, ChoiceType))
		if f := r.Doc.Member(i, ChoiceTarget); f >= 0 {
			if name := r.Raw(r.Doc.Member(f, ChoiceName)); name != nil {
				return "function", name
			}
		}
	}
	switch kind := string(text); kind {
	case "auto", "none", "required":
		return kind, nil
	case "allowed_tools", "custom":
		r.Fail("tool_choice", "This model takes a tool_choice of none, auto, required or one function only.")
	}
	return "", nil
}

// PastCall is a call in an assistant's message.
type PastCall struct {
	At       int32  // of the call
	ID, Name []byte // in their quotes
	Input    []byte // the arguments, escaped
}

// Calls are the calls of an assistant's message. One that is not of a function, or lacks its
// id or name, fails the request.
func (r *RequestReader) Calls(m int32) iter.Seq[PastCall] {
	return func(yield func(PastCall) bool) {
		for at := range r.elements(r.Doc.Member(m, MessageToolCalls)) {
			f := r.Doc.Member(at, CallTarget)
			if f < 0 || r.Text(r.Doc.Member(at, CallID)) == nil || len(r.Text(r.Doc.Member(f, CallName))) == 0 {
				r.Fail(r.PathOf(at), "This model takes calls of functions only, each with an id and a function with a name.")
				continue
			}
			c := PastCall{at, r.Raw(r.Doc.Member(at, CallID)), r.Raw(r.Doc.Member(f, CallName)), r.Text(r.Doc.Member(f, CallInput))}
			if !yield(c) {
				return
			}
		}
	}
}

// FailResult refuses a tool message that answers no open call.
func (r *RequestReader) FailResult(m int32) {
	r.Fail(r.PathOf(m), "A tool message must follow the assistant message with its call, and each call has one; "+
		"nothing may come between them.")
}

// FailCall refuses a call without a result. The id is escaped.
func (r *RequestReader) FailCall(id []byte) {
	r.Fail("messages", "The call %.64s has no tool message with its result right after it.", id)
}

// AppendInput appends a call's arguments, JSON inside a string, as the object itself. Any
// other value is kept under the name arguments, so that nothing is lost.
func AppendInput(dst, escaped []byte) []byte {
	from := len(dst)
	dst = jsontext.AppendUnescaped(dst, escaped)
	switch text := bytes.TrimSpace(dst[from:]); {
	case len(text) == 0:
		return append(dst[:from], "{}"...)
	case text[0] == '{' && IsObject(text):
		return append(dst[:from], text...)
	}
	return append(append(append(dst[:from], `{"arguments":"`...), escaped...), `"}`...)
}
