package anthropic

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

var (
	blockShape = scan.NewShape(scan.Members(nil,
		"type", "text", "thinking", "signature", "data", "id", "name", "input", "citations")...)
	messageShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"content": blockShape},
		"id", "type", "content", "stop_reason", "usage", "model")...)
)

const (
	messageID = iota
	messageType
	messageContent
	messageStop
	messageUsage
	messageModel
)

const (
	blockType = iota
	blockText
	blockThinking
	blockSignature
	blockData
	blockID
	blockName
	blockInput
	blockCitations
)

var errNoMessage = errors.New("the answer is not a message")

// reply is a message being turned into a chat completion.
type reply struct {
	body []byte
	doc  *scan.Document
	c    *dialect.Chat
	b    []byte
	text dialect.Produced // for an upstream that reports no usage
}

// Answer writes the chat completion for a whole message.
func (Dialect) Answer(body []byte, c *dialect.Chat, _ *dialect.Target, s *dialect.Scratch) ([]byte, dialect.Usage,
	error) {
	var u dialect.Usage
	if err := s.Doc.Skim(body, messageShape); err != nil {
		return nil, u, fmt.Errorf("cannot read the answer: %w", err)
	}
	r := reply{body: body, doc: &s.Doc, c: c, b: s.Out[:0]}
	defer r.text.Release()
	if string(r.string(s.Doc.TopIndex(messageType))) == "error" {
		return nil, u, &dialect.Failed{JSON: body}
	}
	if string(r.string(s.Doc.TopIndex(messageType))) != "message" || s.Doc.TopIndex(messageContent) < 0 {
		return nil, u, errNoMessage
	}
	r.b = append(append(r.b, `{"id":"chatcmpl-`...), completionID(r.string(s.Doc.TopIndex(messageID)))...)
	r.b = append(r.b, `","object":"chat.completion","created":`...)
	r.b = strconv.AppendInt(r.b, time.Now().Unix(), 10)
	r.b = append(r.b, `,"model":`...)
	r.b = jsontext.AppendString(r.b, c.Model.ID)
	r.b = append(r.b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	r.content()
	r.citations()
	r.thoughts()
	r.calls()
	r.b = append(r.b, `},"logprobs":null,"finish_reason":"`...)
	r.b = append(r.b, finishReason(r.string(s.Doc.TopIndex(messageStop)))...)
	r.b = append(r.b, `"}],"usage":`...)
	var n counts
	if i := s.Doc.TopIndex(messageUsage); i >= 0 {
		n.read(s.Doc.Fields[i].Raw(body))
	}
	u = dialect.Settle(n.usage(), true, &r.text, c)
	r.b = dialect.AppendUsage(r.b, &u)
	s.Out = append(r.b, '}')
	return s.Out, u, nil
}

// string is the raw content of a string field; nil if absent.
func (r *reply) string(i int32) []byte {
	if i < 0 || r.doc.Fields[i].Kind != scan.String {
		return nil
	}
	f := &r.doc.Fields[i]
	return r.body[f.From+1 : f.To-1]
}

func (r *reply) member(block int32, id int) []byte { return r.string(r.doc.Member(block, id)) }

func (r *reply) eachBlock(f func(block int32, kind string)) {
	list := r.doc.TopIndex(messageContent)
	for i := list + 1; i < r.doc.Fields[list].Next; i = r.doc.Fields[i].Next {
		f(i, string(r.member(i, blockType)))
	}
}

// content joins the text blocks; null if absent.
func (r *reply) content() {
	var think dialect.Think
	seen := false
	r.eachBlock(func(block int32, kind string) {
		if kind != "text" {
			return
		}
		if !seen {
			r.b = append(r.b, '"')
			seen = true
		}
		text := r.member(block, blockText)
		r.note(dialect.KindContent, 0, text)
		if r.c.DropThinking {
			r.b = think.Filter(r.b, text)
		} else {
			r.b = append(r.b, text...)
		}
	})
	if !seen {
		r.b = append(r.b, "null"...)
		return
	}
	r.b = append(think.End(r.b), '"')
}

func (r *reply) note(kind, tool int64, text []byte) {
	if len(text) > 0 {
		r.text.Add(dialect.TextKey(0, kind, tool), text)
	}
}

// thoughts gives the reasoning twice: as text for reading, and block by block
// with its signature for sending back.
func (r *reply) thoughts() {
	texts, details := 0, 0
	var signature []byte
	r.eachBlock(func(block int32, kind string) {
		switch kind {
		case "thinking":
			text := r.member(block, blockThinking)
			r.note(dialect.KindReasoning, 0, text)
			if len(text) > 0 {
				if texts == 0 {
					r.b = append(r.b, `,"reasoning_content":"`...)
				}
				texts++
				r.b = append(r.b, text...)
			}
			if s := r.member(block, blockSignature); len(s) > 0 {
				signature = s
			}
			details++
		case "redacted_thinking":
			details++
		}
	})
	if texts > 0 {
		r.b = append(r.b, '"')
	}
	if details == 0 {
		return
	}
	index := int64(0)
	r.b = append(r.b, `,"reasoning_details":[`...)
	r.eachBlock(func(block int32, kind string) {
		if kind != "thinking" && kind != "redacted_thinking" {
			return
		}
		if index > 0 {
			r.b = append(r.b, ',')
		}
		if kind == "thinking" {
			r.b = append(append(r.b, `{"type":"reasoning.text","text":"`...), r.member(block, blockThinking)...)
			r.b = append(append(r.b, `","signature":"`...), r.member(block, blockSignature)...)
		} else {
			r.b = append(append(r.b, `{"type":"reasoning.encrypted","data":"`...), r.member(block, blockData)...)
		}
		r.b = append(r.b, `","format":"`+thoughtFormat+`","index":`...)
		r.b = append(strconv.AppendInt(r.b, index, 10), '}')
		index++
	})
	r.b = append(r.b, ']')
	if signature != nil {
		r.b = append(append(append(r.b, `,"thought_signature":"`...), signature...), '"')
	}
}

// calls turns tool_use blocks into tool_calls.
func (r *reply) calls() {
	n := int64(0)
	r.eachBlock(func(block int32, kind string) {
		if kind != "tool_use" {
			return
		}
		if n == 0 {
			r.b = append(r.b, `,"tool_calls":[`...)
		} else {
			r.b = append(r.b, ',')
		}
		name := r.member(block, blockName)
		r.note(dialect.KindToolName, n, name)
		r.b = append(append(r.b, `{"id":"`...), r.member(block, blockID)...)
		r.b = append(append(r.b, `","type":"function","function":{"name":"`...), name...)
		r.b = append(r.b, `","arguments":"`...)
		from := len(r.b)
		if i := r.doc.Member(block, blockInput); i >= 0 {
			r.b = jsontext.AppendEscaped(r.b, r.doc.Fields[i].Raw(r.body))
		}
		r.note(dialect.KindToolInput, n, r.b[from:])
		r.b = append(r.b, `"}}`...)
		n++
	})
	if n > 0 {
		r.b = append(r.b, ']')
	}
}
