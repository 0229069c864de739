package messages

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// keepOut is how much room for events a reused stream keeps.
const keepOut = 8 << 10

var streams = sync.Pool{New: func() any { return new(stream) }}

// kind is of a content block.
type kind uint8

const (
	kindNone kind = iota
	kindText
	kindThinking
	kindTool
)

// stream turns chunks of a chat completion into the events of a message. The usual
// chunk is like the one before it but for its text (usual.go).
type stream struct {
	events dialect.Events
	doc    scan.Document
	f      *Form
	c      *dialect.Chat
	prompt int64 // tokens by estimate, until the end tells

	out   []byte
	usual fastPathChunk

	started, ended, failed bool
	block                  kind   // the open one
	index                  int64  // of the block that is open, or was last
	head                   []byte // of the events that add to the open block
	tool                   int64  // number of the open call, -1 before the first
	input                  bool   // it had some
	thought                bool   // the open thought has a text
	called, searched       bool
	said                   bool   // a text has begun
	held                   []byte // sealed thoughts that wait for a call
	ends                   []int  // …and where each of them ends

	finish, stop []byte
	usage        dialect.Usage
	cost         []byte
}

// Stream is dialect.Form's. What it needs of the request it takes now: the client's
// own body is gone when chunks come.
func (f *Form) Stream(c *dialect.Chat) dialect.FormStream {
	s := streams.Get().(*stream)
	s.f, s.c, s.index, s.tool = f, c, -1, -1
	if c.Model != nil {
		_, s.prompt = dialect.EstimatePrompt(c, c.Model.ImageTokens)
	}
	f.stops = bytes.Clone(f.stops)
	return s
}

func (s *stream) Pass(chunks []byte) []byte {
	s.out = s.out[:0]
	if s.events.Large() {
		n := s.events.LetOn(chunks)
		if chunks = chunks[n:]; s.events.Large() {
			return s.out
		}
	}
	s.events.Feed(chunks)
	for s.events.Next() {
		s.read(s.events.Data)
	}
	if s.events.TooLarge() && !s.ended {
		s.events.Let()
		// What it said is lost, which the client must not take for a whole answer.
		s.fail("upstream_error", "The model's answer has an event that is too large.")
	}
	s.events.Keep()
	return s.out
}

// read takes one chunk.
func (s *stream) read(data []byte) {
	if len(data) == 0 || s.ended {
		return
	}
	if s.events.DataFrom < 0 {
		for i := range data { // between JSON's tokens a line's end is white space
			if data[i] == '\n' {
				data[i] = ' '
			}
		}
	}
	if k, text := s.usual.match(data); k != kindNone && k == s.block {
		s.add(text)
		return
	}
	if data[0] == '[' {
		if string(bytes.TrimSpace(data)) == "[DONE]" {
			s.end()
		}
		return
	}
	data, err := dialect.SkimLoose(&s.doc, data, completionShape)
	if err != nil {
		return
	}
	v := values{data, &s.doc}
	if e := v.raw(s.doc.TopIndex(answerError)); e != nil {
		s.fault(e)
		return
	}
	s.start(&v)
	if choice := v.choice(); choice >= 0 {
		s.choice(&v, choice)
	}
	if raw := v.raw(s.doc.TopIndex(answerUsage)); raw != nil {
		dialect.ReadUsage(raw, &s.usage)
		s.cost = append(s.cost[:0], v.raw(s.doc.TopIndex(answerCost))...)
	}
}

// choice reads what the model said.
func (s *stream) choice(v *values, choice int32) {
	delta := v.member(choice, choiceDelta)
	if list := v.raw(v.member(delta, saidDetails)); len(list) > 0 && list[0] == '[' {
		s.details(v, delta, list)
	} else {
		s.reason(v, delta)
	}
	if i := v.member(delta, saidContent); len(v.text(i)) > 0 {
		s.open(kindText)
		s.add(v.text(i))
		s.learn(v, choice, i)
	} else if text := v.text(v.member(delta, saidRefusal)); len(text) > 0 {
		s.open(kindText)
		s.add(text)
	}
	if list := v.raw(v.member(delta, saidAnnotations)); len(list) > 2 {
		var c citation
		for at, ok := c.next(list, 1); ok; at, ok = c.next(list, at) {
			s.cite(&c)
		}
	}
	if list := v.member(delta, saidCalls); list >= 0 && s.doc.Fields[list].Kind == scan.Array {
		for i := list + 1; i < s.doc.Fields[list].Next; i = s.doc.Fields[i].Next {
			s.call(v, i, choice)
		}
	}
	if text := v.text(v.member(choice, choiceFinish)); text != nil {
		s.finish = append(s.finish[:0], text...)
		s.stop = append(s.stop[:0], v.text(v.member(choice, choiceStop))...)
	}
}

// learn keeps what stood around the only text of a chunk.
func (s *stream) learn(v *values, choice, text int32) {
	f := &s.doc.Fields[text]
	if v.raw(v.member(choice, choiceFinish)) == nil && v.raw(s.doc.TopIndex(answerUsage)) == nil {
		s.usual.learn(v.body, int(f.From)+1, int(f.To)-1, s.block)
	}
}

// reason reads a thought's text.
func (s *stream) reason(v *values, delta int32) {
	i := v.member(delta, saidReasoning)
	if len(v.text(i)) == 0 {
		i = v.member(delta, saidReason)
	}
	text := v.text(i)
	if len(text) == 0 || s.f.hides || !s.f.thinks {
		return
	}
	s.open(kindThinking)
	s.thought = true
	s.add(text)
	if len(v.text(v.member(delta, saidContent))) == 0 {
		s.learn(v, v.choice(), i)
	}
}

// details reads entries of reasoning_details: text where it is there alone, and
// what makes thoughts valid.
func (s *stream) details(v *values, delta int32, list []byte) {
	said := len(v.text(v.member(delta, saidReasoning))) > 0 || len(v.text(v.member(delta, saidReason))) > 0
	s.reason(v, delta)
	var t thought
	for at, ok := t.next(list, 1); ok; at, ok = t.next(list, at) {
		if !s.f.thinks {
			if t.sealed() {
				s.hold(t.entry)
			}
			continue
		}
		if !said && len(t.text) > 0 && !s.f.hides {
			s.open(kindThinking)
			s.thought = true
			s.add(t.text)
		}
		switch {
		case t.sealed():
			s.sealed(t.entry)
		case len(t.data) > 0:
			s.redacted(t.data)
		case len(t.sign) > 0:
			s.open(kindThinking)
			s.sign(t.sign)
			s.close()
		}
	}
}

// call reads a part of a call.
func (s *stream) call(v *values, i, choice int32) {
	number, ok := jsontext.ReadCount(v.raw(v.member(i, callIndex)))
	function := v.member(i, callFunction)
	name := v.text(v.member(function, 0))
	id := v.text(v.member(i, callID))
	if !ok { // a server that sends calls whole
		number = s.tool
		if len(name) > 0 {
			number++
		}
	}
	switch {
	case number > s.tool && len(name) > 0:
		s.openTool(number, id, name)
	case number != s.tool || s.block != kindTool:
		s.fail("upstream_error", "The model's calls of tools came mixed up.")
		return
	}
	if arguments := v.member(function, 1); len(v.text(arguments)) > 0 {
		s.input = true
		s.add(v.text(arguments))
		if len(name) == 0 {
			s.learn(v, choice, arguments)
		}
	}
}

// fault ends the events with an error that is in a chunk.
func (s *stream) fault(raw []byte) {
	var message, code []byte
	if raw[0] == '{' {
		for m := range jsontext.Members(raw, 1) {
			if raw[m.From] != '"' {
				continue
			}
			switch value := raw[m.From+1 : m.To-1]; string(m.Key) {
			case "message":
				message = jsontext.AppendUnescaped(nil, value)
			case "code":
				code = value
			}
		}
	}
	s.fail(string(code), string(message))
}

func (s *stream) fail(code, message string) {
	if code == "context_length_exceeded" && s.c.Model != nil {
		message = s.f.TooLong(s.prompt, s.c.Model.Chat.ContextTokens)
	}
	s.out = s.f.AppendError(s.out, s.c, &dialect.Fault{Code: code, Message: message})
	s.ended, s.failed = true, true
}

// Fail is dialect.FormStream's.
func (s *stream) Fail(f *dialect.Fault) []byte {
	s.out = s.out[:0]
	if !s.ended {
		s.fail(f.Code, f.Message)
	}
	return s.out
}

// Finish is dialect.FormStream's.
func (s *stream) Finish() []byte {
	s.out = s.out[:0]
	if s.events.AtEnd() {
		s.read(s.events.Data)
	}
	if !s.ended {
		s.end()
	}
	return s.out
}

// Release is dialect.FormStream's.
func (s *stream) Release() {
	s.events.Reset()
	s.doc.Reset()
	s.usual.forget()
	fresh := stream{events: s.events, doc: s.doc, usual: s.usual, out: s.out[:0], head: s.head[:0],
		finish: s.finish[:0], stop: s.stop[:0], cost: s.cost[:0], ends: s.ends[:0]}
	if cap(fresh.out) > keepOut {
		fresh.out = nil
	}
	*s = fresh
	streams.Put(s)
}
