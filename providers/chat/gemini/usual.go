package gemini

import "farebox/providers/chat/dialect"

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

// usual translates the event of which there are hundreds, without a scan: one part
// of the first choice, with a text and nothing else, and the usage behind it. It
// changes nothing where the event is of another form.
func (s *stream) usual(data []byte) bool {
	c := cursor{b: data}
	if !c.take("{") || !c.member(`"candidates"`) || !c.take("[") || !c.take("{") || !c.member(`"content"`) || !c.take("{") {
		return false
	}
	role := c.member(`"role"`)
	if role && (!c.take(`"model"`) || !c.take(",")) {
		return false
	}
	if !c.member(`"parts"`) || !c.take("[") || !c.take("{") || !c.member(`"text"`) || !c.take(`"`) {
		return false
	}
	from := c.at
	end := dialect.SkipString(data, from-1)
	if end < 0 {
		return false
	}
	text := data[from : end-1]
	c.at = end
	if !c.take("}") || !c.take("]") {
		return false
	}
	if !role && c.take(",") && (!c.member(`"role"`) || !c.take(`"model"`)) {
		return false
	}
	if !c.take("}") || c.take(",") && (!c.member(`"index"`) || !c.take("0")) {
		return false
	}
	if !c.take("}") || !c.take("]") {
		return false
	}
	if !c.take(",") {
		return c.take("}") && c.at == len(data) && s.usualText(text)
	}
	if !c.member(`"usageMetadata"`) {
		return false
	}
	usage := dialect.SkipSpace(data, c.at)
	if end = dialect.SkipValue(data, usage); end < 0 || data[usage] != '{' {
		return false
	}
	told := data[usage:end]
	// Nothing may follow that would be read.
	for c.at = end; !c.take("}"); c.at = end {
		if !c.take(",") || !c.member(`"modelVersion"`) && !c.member(`"responseId"`) || !c.take(`"`) {
			return false
		}
		if end = dialect.SkipString(data, c.at-1); end < 0 {
			return false
		}
	}
	if c.at != len(data) {
		return false
	}
	if s.chunks%readEvery == 1 {
		s.told = s.told[:0]
		s.counts.read(told)
	} else {
		s.told = append(s.told[:0], told...)
	}
	s.reported = s.counts.seen && s.Finished()
	return s.usualText(text)
}

func (s *stream) usualText(text []byte) bool {
	if len(text) > 0 {
		s.content(0, &s.choices[0], text, nil)
	}
	return true
}
