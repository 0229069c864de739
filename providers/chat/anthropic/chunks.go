package anthropic

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// start begins the answer.
func (s *stream) start(data []byte) {
	if i := s.doc.TopIndex(eventMessage); i >= 0 {
		if u := s.doc.Member(i, 1); u >= 0 {
			s.count(s.doc.Fields[u].Raw(data))
		}
		s.Begin(completionID(s.text(data, s.doc.Member(i, 0))))
	}
}

func (s *stream) content(text []byte) {
	s.chars += chars(text)
	s.Say(0, text, nil)
}

// openBlock puts the content of a block at its begin, all of it in a whole message.
func (s *stream) openBlock(data []byte, i int32) {
	switch kind := s.text(data, s.doc.Member(i, blockType)); string(kind) {
	case "text":
		s.block, s.textFrom = "text", s.chars
		if text := s.text(data, s.doc.Member(i, blockText)); len(text) > 0 || s.atOnce {
			s.content(text)
		}
	case "thinking":
		s.block = "thinking"
		if text := s.text(data, s.doc.Member(i, blockThinking)); len(text) > 0 {
			s.reasoning(text)
		}
		if s.atOnce {
			s.signed(data, i)
		}
	case "redacted_thinking":
		s.block = ""
		s.detail("reasoning.encrypted", s.text(data, s.doc.Member(i, blockData)), false)
		s.thoughts++
	case "tool_use":
		s.block, s.input = "tool_use", false
		s.openTool(data, i)
	default:
		s.block = ""
	}
}

func (s *stream) openTool(data []byte, block int32) {
	e := s.Event(dialect.Call, 0)
	e.Index, e.ID, e.Name = s.tool, s.text(data, s.doc.Member(block, blockID)), s.text(data, s.doc.Member(block, blockName))
	s.Put(e)
	s.tool++
	// Some servers send the input with the start.
	i := s.doc.Member(block, blockInput)
	if i >= 0 && (s.atOnce || s.doc.Fields[i].Kind == scan.Object && s.doc.Fields[i].Len > 0) {
		s.arguments(jsontext.AppendEscaped(nil, s.doc.Fields[i].Raw(data)))
	}
}

func (s *stream) arguments(escaped []byte) {
	if len(escaped) == 0 {
		return
	}
	s.input = true
	e := s.Event(dialect.Arguments, 0)
	e.Index, e.Text = s.tool-1, escaped
	s.Put(e)
}

func (s *stream) delta(data []byte) {
	i := s.doc.TopIndex(eventDelta)
	if i < 0 {
		return
	}
	text := func(id int) []byte { return s.text(data, s.doc.Member(i, id)) }
	switch string(text(deltaType)) {
	case "text_delta":
		s.content(text(deltaText))
	case "thinking_delta":
		s.reasoning(text(deltaThinking))
	case "input_json_delta":
		if s.block == "tool_use" {
			s.arguments(text(deltaJSON))
		} else if input := text(deltaJSON); len(input) > 0 {
			s.Text.Add(dialect.TextKey(0, dialect.KindToolInput, s.tool), input) // of a tool of the upstream's own
		}
	case "signature_delta":
		s.detail("reasoning.text", text(deltaSignature), true)
	case "citations_delta":
		if c := s.doc.Member(i, deltaCitation); c >= 0 {
			s.cite(s.doc.Fields[c].Raw(data))
		}
	default:
		dialect.AddStrings(&s.Text, dialect.TextKey(0, dialect.KindContent, 2), s.doc.Fields[i].Raw(data))
	}
}

func (s *stream) reasoning(text []byte) {
	if len(text) == 0 {
		return
	}
	e := s.Event(dialect.Thought, 0)
	e.Text = text
	s.Put(e)
}

// detail puts the data that a client must send back for the model to go on thinking:
// the signature, whose text went out as reasoning_content, or the sealed block.
func (s *stream) detail(kind string, value []byte, signature bool) {
	if len(value) == 0 {
		return
	}
	e := s.Event(dialect.Signature, 0)
	e.Type, e.Text, e.Format, e.Index, e.Signed = kind, value, thoughtFormat, s.thoughts, signature
	s.Put(e)
}

func (s *stream) closeBlock() {
	switch {
	case s.block == "text":
		s.Flush()
	case s.block == "thinking":
		s.thoughts++
	case s.block == "tool_use" && !s.input:
		e := s.Event(dialect.NoArguments, 0)
		e.Index = s.tool - 1
		s.Put(e)
	}
	s.block, s.isOpen = "", false
}

func (s *stream) messageDelta(data []byte) {
	if i := s.doc.TopIndex(eventUsage); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		s.reported = true
		s.count(s.doc.Fields[i].Raw(data))
	}
	if stop := s.inside(data, eventDelta, deltaStop); stop != nil {
		s.Ends(0, finishReason(stop))
		s.SendEnds()
	}
}
