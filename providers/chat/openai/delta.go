package openai

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// The names of members, searched for without the quote before them: JSON is
// full of quotes, which makes the search stop at each of them (110 ns instead
// of 20 for an event).
var (
	deltaKey  = []byte(`delta":`)
	finishKey = []byte(`finish_reason":`)
	usageKey  = []byte(`usage"`)
	modelKey  = []byte(`model":`)
	indexKey  = []byte(`index":`)
	errorKey  = []byte(`error"`)

	choicesKey = []byte(`choices":`)
)

// find is the offset after a member's name, at or behind an offset; -1 when it
// is not there. A quote inside a JSON string is always escaped, so a name in
// plain quotes is a name or a whole value.
func find(data []byte, at int, key []byte) int {
	for {
		n := bytes.Index(data[at:], key)
		if n < 0 {
			return -1
		}
		at += n + len(key)
		if before := at - len(key) - 1; before >= 0 && data[before] == '"' {
			return at
		}
	}
}

// delta is the delta object of one choice of an event.
type delta struct {
	begin    int  // of the object's members; 0: it is not an object
	end      int  // after the object
	finished bool // the choice has a finish_reason
	failed   bool // …which is "error"
}

// nextDelta finds and notes the delta after an offset.
func (s *stream) nextDelta(data []byte, at int, d *delta) bool {
	begin := at
	i := find(data, at, deltaKey)
	if i < 0 {
		return false
	}
	*d = delta{}
	if i >= len(data) || data[i] != '{' {
		if i = jsontext.SkipSpace(data, i); i >= len(data) || data[i] != '{' {
			d.end = i
			return true
		}
	}
	choice := int64(0)
	if s.choices > 1 {
		choice = choiceIndex(data, begin, i)
	}
	d.begin = i + 1
	texts := len(s.spans)
	d.end = s.readDelta(data, i+1, choice)
	d.readFinish(data, begin)
	if s.strip && d.finished && len(s.spans) == texts && s.thinkOf(choice).Held() {
		// The end comes without text while some is held back.
		s.spans = append(s.spans, span{from: i + 1, to: i + 1, choice: choice, insert: true})
	}
	return true
}

// readDelta notes the texts of a delta object whose members begin at i and
// returns its end.
func (s *stream) readDelta(data []byte, i int, choice int64) int {
	n := textCollector{to: &s.Text, choice: choice}
	var m jsontext.Member
	for {
		next, ok := jsontext.NextMember(data, i, &m)
		i = next
		if !ok {
			return i
		}
		n.member(data, &m)
		if s.strip && data[m.From] == '"' && m.To-m.From > 2 && string(m.Key) == "content" {
			s.spans = append(s.spans, span{from: m.From + 1, to: m.To - 1, choice: choice})
		}
	}
}

// textCollector gives the texts of one delta or message to the one that counts them.
type textCollector struct {
	to      dialect.Texts
	choice  int64
	thought bool // its reasoning was noted
}

// message notes the texts of an object.
func (t *textCollector) message(object []byte) {
	if len(object) == 0 || object[0] != '{' {
		return
	}
	for m := range jsontext.Members(object, 1) {
		t.member(object, &m)
	}
}

func (t *textCollector) add(way dialect.Way, kind, tool int64, text []byte) {
	dialect.AddString(t.to, way, dialect.TextKey(t.choice, kind, tool), text)
}

func (t *textCollector) member(data []byte, m *jsontext.Member) {
	value := data[m.From:m.To]
	switch value[0] {
	case '"':
		t.text(m.Key, value[1:len(value)-1])
	case '[', '{':
		t.structure(m.Key, value)
	}
}

func (t *textCollector) text(name, text []byte) {
	switch string(name) {
	case "content":
		t.add(dialect.Written, dialect.KindContent, 0, text)
	case "reasoning_content", "reasoning":
		// Some servers send the same text under both names.
		if !t.thought {
			t.thought = len(text) > 0
			t.add(dialect.Written, dialect.KindReasoning, 0, text)
		}
	case "refusal":
		t.add(dialect.Written, dialect.KindContent, 1, text)
	default:
		t.add(dialect.WayOf(name), dialect.KindContent, 2, text)
	}
}

// structure notes deeper members: tool calls, and every text in members
// that are read no further, such as content in parts (Mistral), the legacy
// function_call and the transcript of audio.
func (t *textCollector) structure(name, value []byte) {
	switch {
	case string(name) == "tool_calls" && value[0] == '[':
		t.calls(value)
	case dialect.WayOf(name) == dialect.Source:
		t.to.AddSource(int64(len(value)))
	case string(name) == "reasoning_details":
		if !t.thought {
			dialect.AddStrings(t.to, dialect.TextKey(t.choice, dialect.KindReasoning, 0), value)
		}
	default:
		dialect.AddStrings(t.to, dialect.TextKey(t.choice, dialect.KindContent, 2), value)
	}
}

// calls notes the names and arguments of a tool_calls array.
func (t *textCollector) calls(list []byte) {
	for one := range jsontext.Elements(list) {
		if one[0] == '{' {
			t.call(one)
		}
	}
}

func (t *textCollector) call(call []byte) {
	var f jsontext.Member
	index := int64(0)
	for m := range jsontext.Members(call, 1) {
		switch string(m.Key) {
		case "index":
			index, _ = jsontext.ReadCount(call[m.From:m.To])
		case "function", "custom":
			f = m
		}
	}
	if f.To == 0 || call[f.From] != '{' {
		return
	}
	function := call[f.From:f.To]
	for m := range jsontext.Members(function, 1) {
		if function[m.From] != '"' {
			continue
		}
		text := function[m.From+1 : m.To-1]
		if string(m.Key) == "name" {
			t.add(dialect.Written, dialect.KindToolName, index, text)
		} else {
			t.add(dialect.Written, dialect.KindToolInput, index, text)
		}
	}
}

// readFinish looks for the finish_reason, which usually follows the delta and
// may precede it.
func (d *delta) readFinish(data []byte, begin int) {
	at := find(data, d.end, finishKey)
	if at < 0 {
		if at = find(data[:d.end], begin, finishKey); at < 0 {
			return
		}
	}
	at = jsontext.SkipSpace(data, at)
	if at < len(data) && data[at] == '"' {
		d.finished = true
		d.failed = bytes.HasPrefix(data[at:], []byte(`"error"`))
	}
}

// choiceIndex is the index of the choice whose delta object is at an offset;
// the last `"index":` before it, else the first one behind it.
func choiceIndex(data []byte, begin, delta int) int64 {
	at := -1
	for next := find(data[:delta], begin, indexKey); next >= 0; next = find(data[:delta], next, indexKey) {
		at = next
	}
	if at < 0 {
		end := jsontext.SkipValue(data, delta)
		if end < 0 {
			return 0
		}
		if at = find(data, end, indexKey); at < 0 {
			return 0
		}
	}
	at = jsontext.SkipSpace(data, at)
	end := jsontext.SkipValue(data, at)
	if end < 0 {
		return 0
	}
	index, _ := jsontext.ReadCount(data[at:end])
	return index
}
