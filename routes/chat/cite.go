package chat

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/proxy/jsontext"
	"farebox/routes"
)

// A model that was asked to cite writes ^1^ or ^1,2^ behind a statement. The sources become
// annotations of the text, as OpenAI's chat completions have them; forms make their own kind
// of those. Clients whose form has annotations get the text without the marks.

// cites turns the marks of one answer into annotations.
type cites struct {
	found   []routes.WebText
	keep    bool // the marks stay in the text
	choices []citing
}

// citing is the text of one choice so far. Positions are in characters.
type citing struct {
	at, from int64  // behind the text; where the sentence began that a mark is for
	ended    bool   // the text ends with a sentence
	spaced   bool   // …or with a space
	held     []byte // the possible beginning of a mark, with the space before it
}

const (
	// longestMark bounds the held-back bytes of a text.
	longestMark = 48
	// mostCiting bounds the choices that are read.
	mostCiting = 128
	// maxQuoted is how much of a source an annotation quotes.
	maxQuoted = 150
)

// cite prepares the annotations, once the sources are known.
func (c *inference) cite() {
	if !c.flags.citations || c.lookup == nil || len(c.lookup.answer.Found) == 0 {
		return
	}
	keep := c.call.Config().Augment.InChat().Marks == "keep"
	if c.call.Config().Augment.InChat().Marks == "auto" {
		keep = c.chat.Form == nil && !routes.FromOpenAI(&c.call.Ctx.Request.Header)
	}
	c.cites = &cites{found: c.lookup.answer.Found, keep: keep}
}

// forget begins the answer anew: an attempt may have given a part of it. s may be nil.
func (s *cites) forget() {
	if s != nil {
		s.choices = s.choices[:0]
	}
}

// piece is dialect.Additions.Cite.
func (s *cites) piece(text []byte, ends bool) (rest, sources []byte) {
	if len(s.choices) == 0 {
		s.choices = append(s.choices, citing{})
	}
	if of := &s.choices[0]; len(text) > 0 || ends && len(of.held) > 0 {
		return s.read(of, text, ends)
	}
	return nil, nil
}

// whole is stream for a whole answer.
func (s *cites) whole(answer []byte) []byte {
	if reported := s.rewrite(answer, "message", true); reported != nil {
		return reported
	}
	return answer
}

// rewrite reads the text of every choice; nil: nothing of it changes.
func (s *cites) rewrite(data []byte, name string, whole bool) []byte {
	list := gjson.GetBytes(data, "choices")
	if !list.IsArray() || list.Index == 0 {
		return nil
	}
	var out []byte
	done := 0
	list.ForEach(func(_, choice gjson.Result) bool {
		index := choice.Get("index").Int()
		part := choice.Get(name)
		if index < 0 || index >= mostCiting || !part.IsObject() || part.Index == 0 {
			return true
		}
		for int(index) >= len(s.choices) {
			s.choices = append(s.choices, citing{})
		}
		of, text := &s.choices[index], part.Get("content")
		var raw []byte
		if text.Type == gjson.String {
			raw = routes.ViewBytes(text.Raw[1 : len(text.Raw)-1])
		}
		ends := whole || choice.Get("finish_reason").Type == gjson.String
		if len(raw) == 0 && (!ends || len(of.held) == 0) {
			return true
		}
		words, notes := s.read(of, raw, ends)
		if len(notes) == 0 && bytes.Equal(words, raw) {
			return true
		}
		out = append(out, data[done:part.Index]...)
		out = appendCited(out, part, words, notes)
		done = part.Index + len(part.Raw)
		return true
	})
	if done == 0 {
		return nil
	}
	return append(out, data[done:]...)
}

// appendCited appends an object with another content, and with annotations.
func appendCited(dst []byte, part gjson.Result, words, notes []byte) []byte {
	text, others := part.Get("content"), part.Get("annotations")
	members := 0
	dst = append(dst, '{')
	member := func(name, value string) {
		if members++; members > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, name...), ':'), value...)
	}
	part.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "content" && value.Index == text.Index:
		case key.Str == "annotations":
		default:
			member(key.Raw, value.Raw)
		}
		return true
	})
	member(`"content"`, `"`+string(words)+`"`)
	if list := bytes.Trim(routes.ViewBytes(others.Raw), "[] \t\r\n"); others.IsArray() && len(list) > 0 {
		if len(notes) > 0 {
			notes = append(notes, ',')
		}
		notes = append(notes, list...)
	}
	if len(notes) > 0 {
		member(`"annotations"`, "["+string(notes)+"]")
	}
	return append(dst, '}')
}

// read reads the next piece of a text, escaped as in JSON. It returns its part for the client,
// and the annotations for it.
func (s *cites) read(of *citing, piece []byte, ends bool) (words, notes []byte) {
	text := append(of.held, piece...)
	words = make([]byte, 0, len(text))
	i := 0
	for i < len(text) {
		mark := i
		if text[i] == ' ' && !s.keep {
			mark++
		}
		if mark == len(text) && !ends {
			break // a mark may follow the space
		}
		if mark < len(text) && text[mark] == '^' {
			n, state := markAt(text[mark:])
			if state == unfinished && !ends {
				break
			}
			if state == isMark && s.cited(text[mark+1:mark+n-1], func(int) {}) {
				notes = s.note(of, notes, text[mark:mark+n])
				if s.keep {
					words, of.at = append(words, text[mark:mark+n]...), of.at+int64(n)
				}
				i = mark + n
				continue
			}
		}
		n := character(text[i:])
		of.see(text[i : i+n])
		words = append(words, text[i:i+n]...)
		i += n
	}
	of.held = append([]byte(nil), text[i:]...)
	return words, notes
}

// note appends an annotation for each source that a mark names. It is for the sentence
// before the mark, or for the mark itself where that stays.
func (s *cites) note(of *citing, notes, mark []byte) []byte {
	from, to := of.from, of.at
	if s.keep {
		from, to = of.at, of.at+int64(len(mark))
	}
	s.cited(mark[1:len(mark)-1], func(n int) {
		t := &s.found[n-1]
		notes = jsontext.AppendString(append(jsontext.Comma(notes),
			`{"type":"url_citation","url_citation":{"url":`...), t.URL)
		notes = jsontext.Object(notes).Text("title", t.Title)
		if text := cutText(strings.Join(strings.Fields(t.Text), " "), maxQuoted); text != "" {
			notes = jsontext.Object(notes).Text("content", text)
		}
		notes = jsontext.Object(notes).Int("start_index", from)
		notes = append(strconv.AppendInt(append(notes, `,"end_index":`...), to, 10), "}}"...)
	})
	return notes
}

// cited says that all numbers between the carets are those of sources.
func (s *cites) cited(numbers []byte, each func(n int)) bool {
	for _, word := range bytes.Split(numbers, []byte{','}) {
		n, err := strconv.Atoi(string(bytes.TrimSpace(word)))
		if err != nil || n < 1 || n > len(s.found) {
			return false
		}
		each(n)
	}
	return true
}

// see counts a character, and notes where sentences begin.
func (c *citing) see(char []byte) {
	switch {
	case string(char) == `\n`:
		c.ended, c.spaced = true, true
	case string(char) == " " || string(char) == `\t` || string(char) == `\r`:
		c.spaced = true
	default:
		if c.ended && c.spaced {
			c.from, c.ended = c.at, false
		}
		c.spaced = false
		switch string(char) {
		case ".", "!", "?", "。", "！", "？":
			c.ended = true
		case ")", `\"`, "'", "”", "’", "*", "_": // marks that may close a sentence behind its end
		default:
			c.ended = false
		}
	}
	c.at++
}

// The states of a text that begins with a caret.
const (
	noMark = iota
	isMark
	unfinished
)

// markAt reads the mark that a text begins with; n is its length.
func markAt(text []byte) (n, state int) {
	for i, c := range text[1:min(len(text), longestMark)] {
		switch {
		case c == '^' && i > 0:
			return i + 2, isMark
		case (c < '0' || c > '9') && (i == 0 || c != ',' && c != ' '):
			return 0, noMark
		}
	}
	if len(text) < longestMark {
		return 0, unfinished
	}
	return 0, noMark
}

// character is how many bytes the first character of a text has, which is between the
// quotes of a JSON string.
func character(text []byte) int {
	if text[0] != '\\' {
		_, n := utf8.DecodeRune(text)
		return n
	}
	switch {
	case len(text) < 2:
		return 1
	case text[1] != 'u':
		return 2
	case len(text) >= 12 && text[2]|0x20 == 'd' && bytes.IndexByte([]byte("89abAB"), text[3]) >= 0 && text[6] == '\\' &&
		text[7] == 'u': // a pair of escapes
		return 12
	}
	return min(6, len(text))
}
