package search

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// clean is a text of a service as people read it: no tags, no invisible characters, single
// spaces, entities decoded once. In HTML every tag goes. Plain text may be about tags or have
// List<String> in it, so there only pairs such as <b>…</b> go, and a <br> that touches words.
func clean(text string, markup bool, most int) string {
	const longest = 8 // times the result: tags, entities and spaces are removed
	if most *= longest; len(text) > most {
		text = cut(text, most)
		if i := strings.LastIndexByte(text, '<'); i > strings.LastIndexByte(text, '>') {
			text = text[:i]
		}
	}
	text = visible(entity.ReplaceAllStringFunc(untagged(text, markup), html.UnescapeString))
	return strings.TrimRight(cut(text, most/longest), " \u200c\u200d")
}

var entity = regexp.MustCompile(`&(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});`)

// elements are the elements of HTML in texts. Those that separate words leave a space.
var elements = func() map[string]bool {
	const inline = "a abbr acronym b bdi bdo big button center cite code del dfn em font i ins kbd label mark nobr noscript q " +
		"s samp script small span strike strong style sub sup svg time tt u var wbr"
	const separate = "address article aside blockquote body br caption dd details div dl dt figcaption figure footer form " +
		"h1 h2 h3 h4 h5 h6 head header hr html iframe img input li main nav ol option p pre section select summary table " +
		"tbody td textarea tfoot th thead title tr ul"
	m := map[string]bool{}
	for _, name := range strings.Fields(inline) {
		m[name] = false
	}
	for _, name := range strings.Fields(separate) {
		m[name] = true
	}
	return m
}()

// tag is one tag, or a comment, whose name is empty.
type tag struct {
	start, end    int
	name          string
	closes, leave bool
}

// untagged is a text without its tags, and without scripts and styles.
func untagged(text string, markup bool) string {
	tags := tagsOf(text, markup)
	var b strings.Builder
	at, endless := 0, map[string]bool{}
	for i, t := range tags {
		if !t.leave || t.start < at {
			continue
		}
		b.WriteString(text[at:t.start])
		if at = t.end; elements[t.name] {
			b.WriteByte(' ')
		}
		if (t.name != "script" && t.name != "style") || t.closes || endless[t.name] {
			continue
		}
		end := slices.IndexFunc(tags[i+1:], func(end tag) bool { return end.name == t.name && end.closes })
		if endless[t.name] = end < 0; end >= 0 {
			at = tags[i+1+end].end
		}
	}
	return b.String() + text[at:]
}

// tagsOf finds the tags, and marks those to remove.
func tagsOf(text string, markup bool) (tags []tag) {
	opened := map[string][]int{}
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '<')
		if i < 0 {
			return tags
		}
		t, ok := tagAt(text, at+i)
		if at += i + 1; !ok {
			continue
		}
		at = t.end
		switch stack := opened[t.name]; {
		case markup:
			t.leave = true
		case t.name == "br", t.name == "wbr":
			t.leave = t.start > 0 && text[t.start-1] != ' ' || t.end < len(text) && text[t.end] != ' '
		case !t.closes:
			opened[t.name] = append(stack, len(tags))
		case len(stack) > 0:
			t.leave, tags[stack[len(stack)-1]].leave = true, true
			opened[t.name] = stack[:len(stack)-1]
		}
		tags = append(tags, t)
	}
}

// tagAt is the tag that begins at a <. ok is false for "a < b", "x <y and z>" and
// "List<String>".
func tagAt(text string, start int) (t tag, ok bool) {
	const longest = 1 << 10
	rest := text[start+1 : min(len(text), start+longest)]
	if strings.HasPrefix(rest, "!--") {
		end := strings.Index(rest, "-->")
		return tag{start: start, end: start + 1 + end + len("-->")}, end >= 0
	}
	name, closes := strings.CutPrefix(rest, "/")
	end := strings.IndexFunc(name, func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9')
	})
	if end < 0 || !strings.ContainsRune(" \t\r\n/>", rune(name[end])) {
		return t, false
	}
	t = tag{start: start, name: strings.ToLower(name[:end]), closes: closes}
	if _, ok = elements[t.name]; !ok {
		return t, false
	}
	quote := byte(0)
	for i := len(rest) - len(name) + end; i < len(rest); i++ {
		switch c := rest[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && rest[i-1] == '=':
			quote = c
		case c == '<':
			return t, false
		case c == '>':
			t.end = start + 1 + i + 1
			return t, true
		}
	}
	return t, false
}

// visible is a text without invisible characters. One joiner or variation selector between
// two characters belongs to them, as in emoji and Persian; a run of them hides something.
func visible(text string) string {
	var b strings.Builder
	space, joiner, varied := false, rune(0), false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = true
		case r == '\u200c', r == '\u200d':
			joiner = r
		case r >= '\ufe00' && r <= '\ufe0f':
			if b.Len() > 0 && !space && joiner == 0 && !varied {
				varied = true
				b.WriteRune(r)
			}
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Variation_Selector,
			unicode.Other_Default_Ignorable_Code_Point):
		default:
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			} else if joiner != 0 && b.Len() > 0 {
				b.WriteRune(joiner)
			}
			b.WriteRune(r)
			space, joiner, varied = false, 0, false
		}
	}
	return b.String()
}
