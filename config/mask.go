package config

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// mask stands for a secret in an excerpt, whatever the length of the secret.
const mask = "********"

var (
	// References show where a secret comes from and are safe to show; anything
	// else in the value, a :- default too, may be the secret itself.
	onlyReferences = regexp.MustCompile(
		`^["']?(?:\s|Bearer |\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$\{file:[^{}]*\})*["']?\s*(?:[,}#].*)?$`)
	// The words before a secret, for lines of a file that does not parse.
	secretWord = regexp.MustCompile(`(?i)(?:key|token|secret|password|authorization|headers)["']?\s*:\s*`)
	secretName = regexp.MustCompile(`(?i)key$|token$|secret|passw|authorization|credential`)
	// user:password@ of a URL is hidden wherever it stands.
	userinfo = regexp.MustCompile(`://([^/\s"'@]+)@`)
	// So are keys of vendors and wallets: somebody pasted one into the wrong place.
	pasted = regexp.MustCompile(`\b((?:sk|rk|xai|gsk|pplx|fw|tgp|hf|r8|ghp)[-_][A-Za-z0-9_-]{12,}|AIza[A-Za-z0-9_-]{30,}|` +
		`0x[0-9a-fA-F]{64}|[1-9A-HJ-NP-Za-km-z]{86,90})\b`)
	// privateKey is one in the place of an address: 32 bytes in hexadecimal digits, 64 in base58, or words.
	privateKey = regexp.MustCompile(`^(?:0x)?[0-9a-fA-F]{64}$|^[1-9A-HJ-NP-Za-km-z]{80,90}$|^[a-z]{3,8}(?: [a-z]{3,8}){11,23}$|^\[[0-9, ]{100,}\]$`)
)

// hide marks the text of n as a secret, unless it only refers to one.
func (s *source) hide(n *node) {
	if n == nil || n.isNull() {
		return
	}
	at := n.at()
	runes := []rune(s.line(at.line))
	oneLine := n.after == nil || n.after.Position.Line == at.line || n.kind == scalarNode && !n.block
	if oneLine && at.column-1 <= len(runes) && onlyReferences.MatchString(string(runes[at.column-1:])) {
		return
	}
	s.hideUntil(at, n.after)
}

// hideNamed hides the value of a key that sounds like a secret, at any place: the group around it
// may be misplaced and never be read.
func (s *source) hideNamed(key string, n *node) {
	switch {
	case n.kind == mappingNode && key == "headers":
		for _, k := range n.pairs {
			s.hide(k.value)
		}
	case n.kind != mappingNode && (key == "headers" || secretName.MatchString(key)):
		s.hide(n)
	}
}

// hideUntil marks everything from a place to the next token.
func (s *source) hideUntil(at position, next *token.Token) {
	end := position{len(s.lines) + 1, 1}
	if next != nil {
		end = position{next.Position.Line, next.Position.Column}
	}
	if end.line == at.line {
		runes := []rune(s.line(at.line))
		to := min(max(end.column-1, at.column-1), len(runes))
		for to > at.column-1 && runes[to-1] == ' ' {
			to--
		}
		s.hideSpan(at.line, at.column-1, to)
		return
	}
	s.hideSpan(at.line, at.column-1, -1)
	for line := at.line + 1; line < end.line && line <= len(s.lines); line++ {
		s.hideSpan(line, 0, -1)
	}
	if runes := []rune(s.line(end.line)); strings.TrimSpace(string(runes[:min(max(end.column-1, 0), len(runes))])) !=
		"" {
		s.hideSpan(end.line, 0, end.column-1)
	}
}

func (s *source) hideSpan(line, from, to int) {
	s.hidden[line] = append(s.hidden[line], span{from, to})
}

// hideGuessed masks likely secrets in a line whose structure is not known. It rather hides too
// much.
func (s *source) hideGuessed(line int) {
	text := s.line(line)
	// A line that a secret of several lines may have run into.
	for above, seen := line-1, 0; above >= 1 && seen < 3; above-- {
		up := s.line(above)
		if strings.TrimSpace(up) == "" {
			continue
		}
		seen++
		if m := secretWord.FindStringIndex(up); m != nil && strings.ContainsAny(up[m[1]:], "|>\"'") &&
			!onlyReferences.MatchString(up[m[1]:]) {
			s.hideSpan(line, indent(text), -1)
		}
	}
	// A value below `headers:`, or a continuation below `key: |`.
	for above := line - 1; above >= 1 && above > line-100; above-- {
		up := s.line(above)
		if strings.TrimSpace(up) == "" || indent(up) >= indent(text) {
			continue
		}
		if !secretWord.MatchString(up) {
			break
		}
		value := strings.Index(text, ":") + 1
		if value == 0 {
			value = indent(text)
		}
		if !onlyReferences.MatchString(strings.TrimSpace(text[value:])) {
			s.hideSpan(line, utf8.RuneCountInString(text[:value]), -1)
		}
		break
	}
	for _, m := range secretWord.FindAllStringIndex(text, -1) {
		if !onlyReferences.MatchString(text[m[1]:]) {
			s.hideSpan(line, utf8.RuneCountInString(text[:m[1]]), -1)
			return
		}
	}
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }

func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// masked is a line without its secrets, and where its column is now.
func (s *source) masked(at position) (line []rune, caret int) {
	text := s.line(at.line)
	runes := []rune(text)
	secret := make([]bool, len(runes))
	for _, h := range s.hidden[at.line] {
		to := h.to
		if to < 0 || to > len(runes) {
			to = len(runes)
		}
		for i := h.from; i < to; i++ {
			secret[i] = runes[i] != ' ' || i > h.from
		}
	}
	for _, m := range append(userinfo.FindAllStringSubmatchIndex(text, -1), pasted.FindAllStringSubmatchIndex(text, -1)...) {
		from := utf8.RuneCountInString(text[:m[2]])
		for i := range utf8.RuneCountInString(text[m[2]:m[3]]) {
			secret[from+i] = true
		}
	}
	for i, c := range runes {
		if i == at.column-1 {
			caret = len(line)
		}
		switch {
		case !secret[i]:
			line = append(line, c)
		case i == 0 || !secret[i-1]:
			line = append(line, []rune(mask)...)
		case i == at.column-1:
			caret -= len(mask) // inside a secret: point at its start
		}
	}
	if at.column-1 >= len(runes) {
		caret = len(line)
	}
	return line, caret
}

// whole is the text without its secrets.
func (s *source) whole() string {
	var b strings.Builder
	for i := range s.lines {
		line, _ := s.masked(position{i + 1, 1})
		b.WriteString(string(line) + "\n")
	}
	return b.String()
}
