package openai

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/providers/tee/seal"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// An enclave seals every text of an answer to the client. One that does not, or a host
// that answers in its place, is found out here, event by event and before any of the
// event is passed on. An event passes only if it is known to be sealed or to have no text:
// an event that could be read in two ways is as good as one in the clear.

const (
	// maxSealedEvent is the largest event that is held until it is whole.
	maxSealedEvent = 1 << 20
	// maxSealedDepth is how deep its brackets may nest; usual ones have six.
	maxSealedDepth = 32
	// maxWord is the longest name of a role, a reason or an id; maxLabel that of a member
	// next to the choices.
	maxWord  = 64
	maxLabel = 256
	// maxStop is the longest of the client's own stop sequences.
	maxStop = 4096
)

// readSealed judges an event of a sealed answer.
func (s *stream) readSealed(data []byte) verdict {
	if text, kind, rest, ok := s.usual.find(data); ok && bytes.Equal(rest, s.usual.rest) {
		if len(text) == 0 {
			return pass
		}
		if !seal.Sealed(text) {
			s.betrayed = kind == dialect.KindContent
			return unsealed
		}
		s.Text.AddSealed(dialect.TextKey(0, kind, 0), int64(seal.Plain(len(text))))
		return pass
	}
	g := guard{data: data}
	if !g.readObject() {
		s.betrayed = g.betrayed
		return unsealed
	}
	if g.failed {
		return failure
	}
	for kind, length := range g.lengths {
		if length > 0 {
			s.Text.AddSealed(dialect.TextKey(0, int64(kind), 0), length)
		}
	}
	s.finished = s.finished || g.finished
	if usage := find(data, 0, usageKey); usage >= 0 {
		s.readUsage(data, usage)
	}
	if !g.finished && s.choices == 1 {
		s.learnSealed(data)
	}
	return pass
}

// learnSealed keeps the surroundings of a delta. They were read in full, so that an
// event which has the same around a sealed text needs no reading.
func (s *stream) learnSealed(data []byte) {
	at := find(data, 0, deltaKey)
	if at < 0 || at >= len(data) || data[at] != '{' {
		return
	}
	if end := jsontext.SkipValue(data, at); end > 0 {
		s.usual.learn(data, &delta{begin: at + 1, end: end})
	}
}

// bare says that an event has one line of data at most, and otherwise lines of the other
// fields and comments. A line that is not one by the specification of event streams may be
// one of data to readers that are less exact.
func (s *stream) bare() bool {
	e := &s.events
	if e.DataFrom >= 0 && e.DataFrom-e.From <= len("data: ") && lineEnds(e.Source()[e.DataFrom+len(e.Data):e.To]) {
		return true
	}
	if e.DataFrom < 0 && len(e.Data) > 0 {
		return false // of several lines
	}
	for rest := e.Source()[e.From:e.To]; len(rest) > 0; {
		line := rest
		if end := bytes.IndexAny(rest, "\r\n"); end >= 0 {
			line, rest = rest[:end], rest[end+1:]
		} else {
			rest = nil
		}
		if len(line) > 0 && !isField(line) {
			return false
		}
	}
	return true
}

// lineEnds says that a text is the two ends of lines that end an event, and nothing else.
func lineEnds(text []byte) bool {
	return string(text) == "\n\n" || string(text) == "\r\n\r\n" || len(text) == 0
}

var (
	dataName   = []byte("data:")
	fieldNames = [...][]byte{[]byte(":"), []byte("event:"), []byte("id:"), []byte("retry:")}
)

// isField says that a line is one of data, which is judged by itself, or a short one that
// cannot be taken for an object.
func isField(line []byte) bool {
	if bytes.HasPrefix(line, dataName) || string(line) == "data" {
		return true
	}
	for _, name := range fieldNames {
		if bytes.HasPrefix(line, name) {
			return len(line) <= maxLabel && bytes.IndexByte(line, '{') < 0
		}
	}
	return false
}

// guard goes over one event of a sealed answer.
type guard struct {
	data     []byte
	lengths  [dialect.KindReasoning + 1]int64 // of the sealed texts in the choices, by kind
	choices  bool                             // they were seen
	finished bool                             // a choice has a finish_reason
	failed   bool                             // it reports a failure
	betrayed bool                             // a content is in the clear
}

// readObject says that all texts of the event are sealed. It is
// one object by the whole grammar, which all readers take for the same.
func (g *guard) readObject() bool {
	from := scan.Space(g.data, 0)
	if from >= len(g.data) || g.data[from] != '{' {
		return false
	}
	end, why := scan.Value(g.data, from, 0, maxSealedDepth)
	if why != 0 || scan.Space(g.data, end) != len(g.data) {
		return false
	}
	for m := range jsontext.Members(g.data, from+1) {
		if !g.member(&m) {
			return false
		}
	}
	return true
}

// member judges the members next to the choices, and the choices.
func (g *guard) member(m *jsontext.Member) bool {
	value := g.data[m.From:m.To]
	switch string(m.Key) {
	case "choices":
		again := g.choices
		g.choices = true
		return !again && g.closed(value, ofChoices)
	case "usage":
		return g.closed(value, ofUsage)
	case "error":
		g.failed = g.failed || len(value) > 2 && (value[0] == '{' || value[0] == '"' || value[0] == '[')
		return true // it is sent in our words
	}
	if likeText(m.Key) {
		return !isBare(value[0]) && g.closed(value, ofOthers)
	}
	if value[0] == '"' {
		text := value[1 : len(value)-1]
		return len(text) <= maxLabel || seal.Sealed(text)
	}
	return g.closed(value, ofOthers)
}

// textNames are members that readers take a text from, or the way to one.
var textNames = [...][]byte{[]byte("choices"), []byte("content"), []byte("text"), []byte("reasoning"),
	[]byte("reasoning_content"), []byte("refusal"), []byte("delta"), []byte("message"), []byte("tool_calls"),
	[]byte("output"), []byte("output_text"), []byte("response"), []byte("completion"), []byte("error")}

// likeText says that a name is one of those, in any case, or may be: some readers do not
// mind case, and an escaped name can be any.
func likeText(name []byte) bool {
	if bytes.IndexByte(name, '\\') >= 0 {
		return true
	}
	for _, text := range textNames {
		if bytes.EqualFold(name, text) {
			return true
		}
	}
	return false
}

// zone is a place in an event.
type zone uint8

const (
	ofChoices zone = iota
	ofUsage        // words of ours are not texts
	ofOthers
)

// closed says that a value, which is valid JSON, has no text that is not sealed. Numbers
// in a list are text, too: those of tokens or of bytes. So is a value in the place of
// a text that needs no quotes: 42 is an answer.
func (g *guard) closed(value []byte, in zone) bool {
	var objects uint64 // a bit for each open bracket
	var seen [maxSealedDepth + 1]names
	var name []byte
	depth := 0
	for i := 0; i < len(value); {
		switch c := value[i]; c {
		case '{', '[':
			if isCall(name) && !empty(value[i:]) {
				return false
			}
			depth++
			objects, seen[depth], name = objects<<1, 0, nil
			if c == '{' {
				objects |= 1
			}
			i++
		case '}', ']':
			depth--
			objects >>= 1
			i++
		case '"':
			end := jsontext.SkipString(value, i)
			text := value[i+1 : end-1]
			i = end
			if next := jsontext.SkipSpace(value, end); next < len(value) && value[next] == ':' {
				bit := nameOf(text)
				if bit&seen[depth] != 0 || bytes.IndexByte(text, '\\') >= 0 {
					return false // which of them holds depends on the reader
				}
				seen[depth] |= bit
				name, i = text, next+1
				continue
			}
			if objects&1 == 0 {
				name = nil
			}
			if !g.text(name, text, in, seen[depth]) {
				return false
			}
			name = nil
		case ' ', '\t', '\n', '\r', ',', ':':
			i++
		default:
			switch {
			case depth > 0 && objects&1 == 0 && (c == '-' || c-'0' <= 9):
				return false
			case in != ofUsage && isBare(c) && likeText(name):
				g.betrayed = g.betrayed || in == ofChoices && nameOf(name) == nameContent
				return false
			}
			i = jsontext.SkipValue(value, i)
			name = nil
		}
	}
	return true
}

// text judges one text by the name that it has; nil: none.
func (g *guard) text(name, text []byte, in zone, beside names) bool {
	switch {
	case len(text) == 0:
		return true
	case seal.Sealed(text):
		kind := dialect.KindContent
		if nameOf(name)&thoughts != 0 {
			kind = dialect.KindReasoning
		}
		// Some servers send the same text under both names.
		if in == ofChoices && (kind == dialect.KindContent || beside&thoughts != thoughts) {
			g.lengths[kind] += int64(seal.Plain(len(text)))
		}
		return true
	case in == ofUsage:
		return isWord(text)
	}
	switch string(name) {
	case "finish_reason":
		g.finished = true
		g.failed = g.failed || string(text) == "error"
		return isWord(text)
	case "role", "type", "object", "id", "native_finish_reason":
		return isWord(text)
	case "stop_reason", "matched_stop":
		return len(text) <= maxStop // the client's own, which it sent in the clear
	case "content":
		g.betrayed = g.betrayed || in == ofChoices
	}
	return false
}

// names is a set of members of one object.
type names uint16

const (
	nameContent names = 1 << iota
	nameReasoning
	nameReasoningContent
	nameRefusal
	nameText
	nameToolCalls
	nameDelta
	nameMessage
	nameRole
	nameFinish
	nameLogprobs
	nameAudio
	nameIndex

	thoughts = nameReasoning | nameReasoningContent
)

// nameOf is the bit of a member that must not be twice in its object; 0: it may.
func nameOf(name []byte) names {
	switch string(name) {
	case "content":
		return nameContent
	case "reasoning":
		return nameReasoning
	case "reasoning_content":
		return nameReasoningContent
	case "refusal":
		return nameRefusal
	case "text":
		return nameText
	case "tool_calls":
		return nameToolCalls
	case "delta":
		return nameDelta
	case "message":
		return nameMessage
	case "role":
		return nameRole
	case "finish_reason":
		return nameFinish
	case "logprobs":
		return nameLogprobs
	case "audio":
		return nameAudio
	case "index":
		return nameIndex
	}
	return 0
}

// isCall says that a member holds calls of tools, of which no part is sealed.
func isCall(name []byte) bool { return string(name) == "tool_calls" || string(name) == "function_call" }

// isBare says that a value that begins so is a number, true or false.
func isBare(c byte) bool { return c == '-' || c-'0' <= 9 || c == 't' || c == 'f' }

// empty says that a bracket is closed again at once.
func empty(value []byte) bool {
	next := jsontext.SkipSpace(value, 1)
	return next < len(value) && (value[next] == ']' || value[next] == '}')
}

// isWord says that a text is a name and nothing else.
func isWord(text []byte) bool { return dialect.IsToken(text, maxWord) }
