package responses

import (
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
)

// readNativeUsage reads the usage of a response. It leaves u alone when raw is not a usage.
func readNativeUsage(raw []byte, u *dialect.Usage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	var n dialect.Usage
	for m := range jsontext.Members(raw, 1) {
		value := raw[m.From:m.To]
		v, number := jsontext.ReadCount(value)
		switch string(m.Key) {
		case "input_tokens":
			n.Prompt, n.Seen = v, n.Seen || number
		case "output_tokens":
			n.Completion, n.Seen = v, n.Seen || number
		case "total_tokens":
			n.Total, n.Seen = v, n.Seen || number
		case "input_tokens_details", "output_tokens_details":
			if value[0] != '{' {
				continue
			}
			for d := range jsontext.Members(value, 1) {
				v, _ := jsontext.ReadCount(value[d.From:d.To])
				switch string(d.Key) {
				case "cached_tokens":
					n.Cached = v
				case "cache_write_tokens", "cache_creation_input_tokens":
					n.CacheWrite = v
				case "reasoning_tokens":
					n.Reasoning = v
				}
			}
		}
	}
	if !n.Seen {
		return
	}
	if n.Prompt > 0 {
		n.Completion = max(n.Completion, n.Total-n.Prompt)
	}
	n.Bound()
	*u = n
}

// appendNativeUsage appends the usage of a response.
func appendNativeUsage(dst []byte, u *dialect.Usage) []byte {
	dst = jsontext.Object(append(dst, '{')).Int("input_tokens", u.Prompt)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
	dst = jsontext.Object(dst).Int("cache_write_tokens", u.CacheWrite)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.Completion, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), u.Prompt+u.Completion, 10)
	return append(dst, '}')
}

// seen is how a text of an answer was sent: an upstream sends each several times.
type seen uint8

const (
	seenDelta seen = iota
	seenText       // at the end of a text
	seenPart       // in its part
	seenItem       // in its item
	seenWhole      // in the response
	seenWays
)

// meter counts the texts of an answer once, whichever way they were told in: a client
// can read all of them.
type meter struct {
	dialect.Meter
	told    [seenWays]int64 // bytes
	counted int64           // the most of told
	media   [seenWays]int64 // bytes that are not text
	drawn   int64           // the most of media
}

// see notes a text, as between its quotes.
func (m *meter) see(way seen, key uint16, words []byte) {
	m.told[way] += int64(len(words))
	more := m.told[way] - m.counted
	if more <= 0 {
		return
	}
	m.counted = m.told[way]
	m.Text.Add(key, words[int64(len(words))-min(more, int64(len(words))):])
}

// output notes the texts of all items.
func (m *meter) output(list []byte, way seen) {
	for item := range jsontext.Objects(list) {
		m.item(item, way)
	}
}

// item notes the texts of an item.
func (m *meter) item(item []byte, way seen) {
	said := dialect.TextKey(0, dialect.KindContent, 0)
	switch string(jsontext.StringIn(item, "type")) {
	case "message":
		m.parts(item, "content", way, said)
	case "reasoning":
		thought := dialect.TextKey(0, dialect.KindReasoning, 0)
		m.parts(item, "summary", way, thought)
		m.parts(item, "content", way, thought)
	case "function_call", "custom_tool_call":
		m.see(way, dialect.TextKey(0, dialect.KindToolName, 0), jsontext.StringIn(item, "name"))
		m.see(way, dialect.TextKey(0, dialect.KindToolInput, 0), jsontext.StringIn(item, "arguments"))
		m.see(way, dialect.TextKey(0, dialect.KindToolInput, 0), jsontext.StringIn(item, "input"))
	case "web_search_call":
		// Search results are not a model's text.
	default:
		dialect.AddStrings(wayOf{m, way}, said, item)
	}
}

// parts notes the texts of a list in an item.
func (m *meter) parts(item []byte, list string, way seen, key uint16) {
	for part := range jsontext.Objects(jsontext.MemberOf(item, list)) {
		m.part(part, way, key)
	}
}

// part notes the text of a part. Its annotations are sources that the model was given.
func (m *meter) part(part []byte, way seen, key uint16) {
	m.see(way, key, jsontext.StringIn(part, "text"))
	m.see(way, key, jsontext.StringIn(part, "refusal"))
}

// wayOf is a meter for texts that were told in one way.
type wayOf struct {
	m   *meter
	way seen
}

func (w wayOf) Add(key uint16, words []byte)        { w.m.see(w.way, key, words) }
func (w wayOf) AddUnknown(key uint16, words []byte) { w.m.see(w.way, key, words) }
func (w wayOf) AddSource(n int64)                   { w.m.Text.AddSource(n) }

func (w wayOf) AddMedia(n, worth int64) {
	w.m.media[w.way] += n
	if more := w.m.media[w.way] - w.m.drawn; more > 0 {
		w.m.drawn = w.m.media[w.way]
		w.m.Text.AddMedia(min(more, n), worth)
	}
}
