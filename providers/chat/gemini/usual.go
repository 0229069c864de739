package gemini

import (
	"farebox/proxy/jsontext"
)

// readEvery is how many usual events there are to one whose usage is read at once:
// it only matters where the model thinks unseen.
const readEvery = 8

// cursor walks over one event whose form is expected.
type cursor struct {
	b  []byte
	at int
}

// take goes past a token, and the white space before it.
func (c *cursor) take(token string) bool {
	i := c.at
	for i < len(c.b) && c.b[i] == ' ' {
		i++
	}
	if len(c.b)-i < len(token) || string(c.b[i:i+len(token)]) != token {
		return false
	}
	c.at = i + len(token)
	return true
}

// member goes past a name and its colon.
func (c *cursor) member(name string) bool { return c.take(name) && c.take(":") }

// eventTemplate is the bytes around the text and the usage of the last usual event: within
// a stream it is the same bytes in all of them.
type eventTemplate struct {
	before  []byte // the text, its opening quote included
	between []byte // from the text's closing quote to the usage
	behind  []byte // the usage
}

// maxTemplate bounds the kept part of each; longer ones are read anew every time.
const maxTemplate = 512

// fits finds text and usage in an event of the template.
func (m *eventTemplate) fits(data []byte) (text, usage []byte, ok bool) {
	from := len(m.before)
	if from == 0 || len(data) < from || string(data[:from]) != string(m.before) {
		return nil, nil, false
	}
	end := jsontext.SkipString(data, from-1)
	at := end + len(m.between)
	if end < 0 || at >= len(data) || string(data[end-1:at-1]) != string(m.between) || data[at-1] != '{' {
		return nil, nil, false
	}
	to := jsontext.SkipValue(data, at-1)
	if to < 0 || string(data[to:]) != string(m.behind) {
		return nil, nil, false
	}
	return data[from : end-1], data[at-1 : to], true
}

// learn keeps the bytes around data[from:end-1], the text, and data[usage:to].
func (m *eventTemplate) learn(data []byte, from, end, usage, to int) {
	m.before = m.before[:0]
	if from > maxTemplate || usage-end > maxTemplate || len(data)-to > maxTemplate {
		return
	}
	m.before = append(m.before, data[:from]...)
	m.between = append(m.between[:0], data[end-1:usage]...)
	m.behind = append(m.behind[:0], data[to:]...)
}

// usual translates the event of which there are hundreds, without a scan: one part
// of the first choice, with a text and nothing else, and the usage behind it. It
// changes nothing where the event is of another form.
func (s *stream) usual(data []byte) bool {
	text, usage, ok := s.template.fits(data)
	if !ok {
		if text, usage, ok = s.unusual(data); !ok {
			return false
		}
	}
	if usage != nil {
		if !replaces(usage) {
			s.Count()
		}
		s.told = append(s.told[:0], usage...)
		if s.Chunks%readEvery == 1 {
			s.Count()
		}
		s.Reported = s.counts.seen && s.Finished()
	}
	if len(text) > 0 {
		s.content(0, &s.calls[0], text, nil)
	}
	return true
}

// replaces says that a usage, once it is read, leaves nothing of those before it: it
// begins with a count above zero, as Google's do.
func replaces(usage []byte) bool {
	c := cursor{b: usage}
	if !c.take("{") || !c.member(`"promptTokenCount"`) {
		return false
	}
	from := jsontext.SkipSpace(usage, c.at)
	to := from
	for to < len(usage) && usage[to] >= '0' && usage[to] <= '9' {
		to++
	}
	const safe = 15 // digits that every count may have
	return to > from && to-from <= safe && usage[from] != '0' && (usage[to] == ',' || usage[to] == '}')
}

// unusual reads the first such event of a stream, and those of other forms.
func (s *stream) unusual(data []byte) (text, usage []byte, ok bool) {
	c := cursor{b: data}
	if !c.take("{") || !c.member(`"candidates"`) || !c.take("[") || !c.take("{") || !c.member(`"content"`) || !c.take("{") {
		return nil, nil, false
	}
	role := c.member(`"role"`)
	if role && (!c.take(`"model"`) || !c.take(",")) {
		return nil, nil, false
	}
	if !c.member(`"parts"`) || !c.take("[") || !c.take("{") || !c.member(`"text"`) || !c.take(`"`) {
		return nil, nil, false
	}
	from := c.at
	end := jsontext.SkipString(data, from-1)
	if end < 0 {
		return nil, nil, false
	}
	text = data[from : end-1]
	c.at = end
	if !c.take("}") || !c.take("]") {
		return nil, nil, false
	}
	if !role && c.take(",") && (!c.member(`"role"`) || !c.take(`"model"`)) {
		return nil, nil, false
	}
	if !c.take("}") || c.take(",") && (!c.member(`"index"`) || !c.take("0")) {
		return nil, nil, false
	}
	if !c.take("}") || !c.take("]") {
		return nil, nil, false
	}
	if !c.take(",") {
		return text, nil, c.take("}") && c.at == len(data)
	}
	if !c.member(`"usageMetadata"`) {
		return nil, nil, false
	}
	begin := jsontext.SkipSpace(data, c.at)
	to := jsontext.SkipValue(data, begin)
	if to < 0 || data[begin] != '{' {
		return nil, nil, false
	}
	// Nothing may follow that would be read.
	for c.at = to; !c.take("}"); {
		if !c.take(",") || !c.member(`"modelVersion"`) && !c.member(`"responseId"`) || !c.take(`"`) {
			return nil, nil, false
		}
		if c.at = jsontext.SkipString(data, c.at-1); c.at < 0 {
			return nil, nil, false
		}
	}
	if c.at != len(data) {
		return nil, nil, false
	}
	s.template.learn(data, from, end, begin, to)
	return text, data[begin:to], true
}
