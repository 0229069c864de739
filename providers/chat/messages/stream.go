package messages

import (
	"bytes"
	"sync"

	"farebox/providers/chat/dialect"
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

// stream writes an answer as the events of a message.
type stream struct {
	dialect.FormState
	f      *Form
	c      *dialect.Chat
	prompt int64 // tokens by estimate, until the end tells

	started          bool
	block            kind   // the open one
	index            int64  // of the block that is open, or was last
	head             []byte // of the events that add to the open block
	tool             int64  // number of the open call, -1 before the first
	thought          bool   // the open thought has a text
	called, searched bool
	said             bool   // a text has begun
	held             []byte // sealed thoughts that wait for a call
	ends             []int  // …and where each of them ends

	finish, stop []byte
}

// Writer is dialect.Form's.
func (f *Form) Writer(c *dialect.Chat) dialect.FormWriter {
	s := streams.Get().(*stream)
	s.f, s.c, s.index, s.tool = f, c, -1, -1
	if c.Model != nil {
		_, s.prompt = dialect.EstimatePrompt(c, c.Model.ImageTokens)
	}
	f.stops = bytes.Clone(f.stops)
	return s
}

// Text is dialect.ChunkWriter's.
func (s *stream) Text(text, _ []byte) {
	if len(text) > 0 {
		s.open(kindText)
		s.add(text)
	}
}

// Refusal is dialect.ChunkWriter's: a text, too.
func (s *stream) Refusal(text []byte) { s.Text(text, nil) }

// Thought is dialect.ChunkWriter's.
func (s *stream) Thought(text []byte) {
	if s.f.hides || !s.f.thinks {
		return
	}
	s.open(kindThinking)
	s.thought = true
	s.add(text)
}

// Detail is dialect.ChunkWriter's.
func (s *stream) Detail(d *dialect.Detail) {
	switch {
	case !s.f.thinks:
		if d.Sealed() {
			s.hold(d.Entry)
		}
	case d.Sealed():
		s.sealed(d.Entry)
	case len(d.Data) > 0:
		s.redacted(d.Data)
	default:
		s.open(kindThinking)
		s.sign(d.Signature)
		s.close()
	}
}

// Source is dialect.ChunkWriter's: a source that the text cites.
func (s *stream) Source(entry []byte) {
	c, ok := readCitation(entry)
	if !ok {
		return
	}
	s.open(kindText)
	s.delta(`{"type":"citations_delta","citation":`)
	s.Out = append(c.append(s.Out), "}}\n\n"...)
}

// Call is dialect.ChunkWriter's. A custom call has no object as its input, and no place in a message.
func (s *stream) Call(index int64, custom bool, id, name, input []byte) {
	if custom {
		return
	}
	if index < 0 { // a server that sends calls whole
		index = s.tool
		if len(name) > 0 {
			index++
		}
	}
	switch {
	case index > s.tool && len(name) > 0:
		s.openTool(index, id, name)
	case index != s.tool || s.block != kindTool:
		s.Fault(&dialect.Fault{Code: dialect.CodeUpstream, Message: "The model's calls of tools came mixed up."})
		return
	}
	s.add(input)
}

// Stop is dialect.ChunkWriter's.
func (s *stream) Stop(reason, sequence []byte) {
	s.finish, s.stop = append(s.finish[:0], reason...), append(s.stop[:0], sequence...)
}

// Fault is dialect.ChunkWriter's.
func (s *stream) Fault(f *dialect.Fault) {
	fault := *f
	if fault.Code == "context_length_exceeded" && s.c.Model != nil {
		fault.Message = s.f.TooLong(s.prompt, s.c.Model.Chat.ContextTokens)
	}
	s.Out = s.f.AppendError(s.Out, s.c, &fault)
	s.Ended = true
}

// Release is dialect.FormWriter's.
func (s *stream) Release() {
	s.Reset(keepOut)
	*s = stream{FormState: s.FormState, head: s.head[:0], finish: s.finish[:0], stop: s.stop[:0], ends: s.ends[:0]}
	streams.Put(s)
}
