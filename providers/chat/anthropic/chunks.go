package anthropic

import (
	"strconv"
	"time"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// start makes the head of the chunks and sends the one with the role.
func (s *stream) start(data []byte) {
	if i := s.doc.TopIndex(eventMessage); i >= 0 {
		if u := s.doc.Member(i, 1); u >= 0 {
			s.count(s.doc.Fields[u].Raw(data))
		}
		s.begin(s.text(data, s.doc.Member(i, 0)))
	}
}

func (s *stream) begin(id []byte) {
	if s.role {
		return
	}
	s.role = true
	s.head = append(s.head[:0], `data: {"id":"`...)
	s.head = appendID(s.head, id)
	s.head = append(s.head, `","object":"chat.completion.chunk","created":`...)
	s.head = strconv.AppendInt(s.head, time.Now().Unix(), 10)
	s.head = append(s.head, `,"model":`...)
	s.head = jsontext.AppendString(s.head, s.Chat.Model.ID)
	s.head = append(s.head, `,"choices":[`...)
	s.open()
	s.out = append(s.out, `"role":"assistant","content":""`...)
	s.shut("")
}

// open begins a chunk's delta object, shut ends it.
func (s *stream) open() {
	if !s.role {
		s.begin(nil) // the upstream left message_start out
	}
	s.out = append(append(s.out, s.head...), `{"index":0,"delta":{`...)
}

func (s *stream) shut(finish string) {
	if finish == "" {
		s.out = append(s.out, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
		return
	}
	s.out = append(append(s.out, `},"logprobs":null,"finish_reason":"`...), finish...)
	s.out = append(s.out, "\"}]}\n\n"...)
}

func (s *stream) content(text []byte) {
	if len(text) > 0 {
		s.Text.Add(dialect.TextKey(0, dialect.KindContent, 0), text)
		s.chars += chars(text)
	}
	s.open()
	s.out = append(s.out, `"content":"`...)
	if s.Chat.DropThinking {
		s.out = s.think.Filter(s.out, text)
	} else {
		s.out = append(s.out, text...)
	}
	s.out = append(s.out, '"')
	s.shut("")
}

func (s *stream) openBlock(data []byte) {
	s.isOpen, s.index = true, 0
	if i := s.doc.TopIndex(eventIndex); i >= 0 {
		s.index, _ = jsontext.ReadCount(s.doc.Fields[i].Raw(data))
	}
	i := s.doc.TopIndex(eventBlock)
	if i < 0 {
		return
	}
	switch kind := s.text(data, s.doc.Member(i, blockType)); string(kind) {
	case "text":
		s.block, s.textFrom = "text", s.chars
		if text := s.text(data, s.doc.Member(i, blockText)); len(text) > 0 {
			s.content(text)
		}
	case "thinking":
		s.block = "thinking"
		if text := s.text(data, s.doc.Member(i, blockThinking)); len(text) > 0 {
			s.reasoning(text)
		}
	case "redacted_thinking":
		s.block = ""
		s.detail(`"type":"reasoning.encrypted","data":"`, s.text(data, s.doc.Member(i, blockData)), false)
		s.thoughts++
	case "tool_use":
		s.block, s.input = "tool_use", false
		s.openTool(data, i)
	default:
		s.block = ""
	}
}

func (s *stream) openTool(data []byte, block int32) {
	name := s.text(data, s.doc.Member(block, blockName))
	if len(name) > 0 {
		s.Text.Add(dialect.TextKey(0, dialect.KindToolName, s.tool), name)
	}
	s.open()
	s.out = append(s.out, `"tool_calls":[{"index":`...)
	s.out = strconv.AppendInt(s.out, s.tool, 10)
	s.out = append(append(s.out, `,"id":"`...), s.text(data, s.doc.Member(block, blockID))...)
	s.out = append(append(s.out, `","type":"function","function":{"name":"`...), name...)
	s.out = append(s.out, `","arguments":""}}]`...)
	s.shut("")
	s.tool++
	// Some servers send the input with the start.
	if i := s.doc.Member(block, blockInput); i >= 0 && s.doc.Fields[i].Kind == scan.Object && s.doc.Fields[i].Len > 0 {
		s.arguments(jsontext.AppendEscaped(nil, s.doc.Fields[i].Raw(data)))
	}
}

func (s *stream) arguments(escaped []byte) {
	if len(escaped) == 0 {
		return
	}
	s.input = true
	s.Text.Add(dialect.TextKey(0, dialect.KindToolInput, s.tool-1), escaped)
	s.writeArguments(escaped)
}

func (s *stream) writeArguments(escaped []byte) {
	s.open()
	s.out = append(s.out, `"tool_calls":[{"index":`...)
	s.out = strconv.AppendInt(s.out, s.tool-1, 10)
	s.out = append(append(s.out, `,"function":{"arguments":"`...), escaped...)
	s.out = append(s.out, `"}}]`...)
	s.shut("")
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
		s.detail(`"type":"reasoning.text","signature":"`, text(deltaSignature), true)
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
	s.Text.Add(dialect.TextKey(0, dialect.KindReasoning, 0), text)
	s.open()
	s.out = append(append(append(s.out, `"reasoning_content":"`...), text...), '"')
	s.shut("")
}

// detail sends what a client must send back for the model to go on thinking:
// the signature, whose text went out as reasoning_content, or the sealed block.
func (s *stream) detail(head string, value []byte, signature bool) {
	if len(value) == 0 {
		return
	}
	s.open()
	s.out = append(append(append(s.out, `"reasoning_details":[{`...), head...), value...)
	s.out = append(s.out, `","format":"`+thoughtFormat+`","index":`...)
	s.out = append(strconv.AppendInt(s.out, s.thoughts, 10), "}]"...)
	if signature {
		s.out = append(append(append(s.out, `,"thought_signature":"`...), value...), '"')
	}
	s.shut("")
}

func (s *stream) closeBlock() {
	switch {
	case s.block == "text":
		s.citations()
	case s.block == "thinking":
		s.thoughts++
	case s.block == "tool_use" && !s.input:
		// A call without input has none to send, but clients parse what came.
		s.writeArguments([]byte("{}"))
	}
	s.block, s.isOpen = "", false
}

func (s *stream) messageDelta(data []byte) {
	if i := s.doc.TopIndex(eventUsage); i >= 0 && s.doc.Fields[i].Kind == scan.Object {
		s.count(s.doc.Fields[i].Raw(data))
		s.reported = true
	}
	if stop := s.inside(data, eventDelta, deltaStop); stop != nil {
		s.finish = finishReason(stop)
		s.sendFinish()
	}
}

func (s *stream) sendFinish() {
	if s.ended {
		return
	}
	s.ended = true
	s.citations()
	if s.think.Held() {
		s.open()
		s.out = append(s.out, `"content":"`...)
		s.out = append(s.think.End(s.out), '"')
		s.shut("")
	}
	s.open()
	s.shut(s.finish)
}

// end sends the usage and [DONE].
func (s *stream) end() {
	if s.done {
		return
	}
	s.done = true
	if s.finish == "" {
		s.finish = "stop"
	}
	s.sendFinish()
	if !s.Chat.HidesUsage() {
		u := s.current()
		s.out = append(append(s.out, s.head...), `],"usage":`...)
		s.out = s.Chat.AppendCost(dialect.AppendUsage(s.out, &u), &u)
		s.out = append(s.out, "}\n\n"...)
	}
	s.out = append(s.out, dialect.DoneEvent...)
}
