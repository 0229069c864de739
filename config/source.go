package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxFile bounds a config file. 1,000 models with every key written out are
// about 1.5 MB.
const maxFile = 4 << 20

// position is a position in a source, both from 1; columns count characters.
type position struct{ line, column int }

// source is the text of a config file by lines, and the parts of it that must
// not be shown.
type source struct {
	name   string
	text   string
	lines  []string
	hidden map[int][]span // by line, from 1
}

// span is a range of characters of a line, from 0; to < 0: to its end.
type span struct{ from, to int }

// newSource checks that data is text at all. The problem, if any, is the only
// one worth reporting.
func newSource(name string, data []byte) (*source, *report) {
	s := &source{name: name, hidden: map[int][]span{}}
	r := &report{src: s}
	if len(data) > maxFile {
		r.add(position{1, 1}, "", "the file is larger than %s; a config file is text of at most that size", Size(maxFile))
		return s, r
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		r.add(position{1, 1}, "", "the file is UTF-16, as some editors of Windows write it; expected it saved as UTF-8")
		return s, r
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	// One kind of line end, so that columns and excerpts are right for files
	// from any editor.
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	s.text = string(data)
	s.lines = strings.Split(s.text, "\n")
	for i, line := range s.lines {
		if at, what := badText(line); at >= 0 {
			r.add(position{i + 1, utf8.RuneCountInString(line[:at]) + 1}, "", "%s; a config file is UTF-8 text", what)
			s.lines[i] = strings.ToValidUTF8(line, "\uFFFD")
			s.hideGuessed(i + 1)
			return s, r
		}
	}
	return s, r
}

// badText finds the first byte that no config file has.
func badText(line string) (int, string) {
	for i, c := range line {
		if c == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(line[i:]); n == 1 {
				return i, fmt.Sprintf("byte 0x%02x is not UTF-8", line[i])
			}
		}
		if (c < ' ' && c != '\t') || c == 0x7f {
			return i, fmt.Sprintf("control character 0x%02x", c)
		}
	}
	return -1, ""
}

// excerpt shows a line with a caret under the place.
func (s *source) excerpt(at position) string {
	if at.line < 1 || at.line > len(s.lines) {
		return ""
	}
	const before, width = 60, 120 // characters of a long line that are shown
	line, caret := s.masked(at)
	from := 0
	prefix, suffix := "", ""
	if len(line) > width && caret > before {
		from, prefix = caret-before, "…"
	}
	to := len(line)
	if to-from > width {
		to, suffix = from+width, "…"
	}
	var pad strings.Builder
	pad.WriteString(strings.Repeat(" ", utf8.RuneCountInString(prefix)))
	for _, c := range line[from:caret] {
		if c != '\t' {
			c = ' '
		}
		pad.WriteRune(c)
	}
	shown := strings.Map(printable, string(line[from:to]))
	return fmt.Sprintf("%6d | %s%s%s\n       | %s^", at.line, prefix, shown, suffix, pad.String())
}

// skipSpace is the column of the first visible character from a place on.
func (s *source) skipSpace(at position) int {
	if at.line >= 1 && at.line <= len(s.lines) {
		runes := []rune(s.lines[at.line-1])
		for i := at.column - 1; i >= 0 && i < len(runes); i++ {
			if runes[i] != ' ' && runes[i] != '\t' {
				return i + 1
			}
		}
	}
	return at.column
}

// printable keeps a hostile file from steering the terminal.
func printable(c rune) rune {
	if (c < ' ' && c != '\t') || (c >= 0x7f && c < 0xa0) {
		return '\uFFFD'
	}
	return c
}
