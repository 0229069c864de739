package scrape

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// plainText is the text of HTML with its blocks apart, without a tree: for pages too deep,
// too large or too broken for one. Time and memory grow with the page alone.
func plainText(page []byte) found {
	var b block
	z := html.NewTokenizer(bytes.NewReader(page))
	var hidden atom.Atom // whose text is left out
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			return found{visible: b.visible, markdown: strings.TrimSpace(b.String())}
		case html.TextToken:
			if hidden == 0 {
				b.text(z.Text())
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			a := atom.Lookup(name)
			switch {
			case hidden != 0:
				if kind == html.EndTagToken && a == hidden {
					hidden = 0
				}
			case kind == html.StartTagToken && leftOut[a]:
				hidden = a
			case a == atom.Pre:
				b.line("")
				b.pre = kind == html.StartTagToken
			case kind == html.StartTagToken && heads[a] != "":
				b.line(heads[a])
			case a == atom.Li && kind == html.StartTagToken:
				b.line("- ")
			case a == atom.Td || a == atom.Th:
				b.text([]byte(" "))
			case blocks[a]:
				b.line("")
			}
		}
	}
}

// leftOut have text that readers never see. The tokenizer takes the content of most of them
// for one text; the others never nest in practice.
var leftOut = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true,
	atom.Textarea: true, atom.Svg: true, atom.Iframe: true, atom.Title: true, atom.Select: true, atom.Noframes: true}

var heads = map[atom.Atom]string{atom.H1: "# ", atom.H2: "## ", atom.H3: "### ", atom.H4: "#### ", atom.H5: "##### ",
	atom.H6: "###### "}

var blocks = map[atom.Atom]bool{atom.P: true, atom.Div: true, atom.Br: true, atom.Tr: true, atom.Table: true,
	atom.Ul: true, atom.Ol: true, atom.Li: true, atom.Dl: true, atom.Dt: true, atom.Dd: true, atom.Section: true,
	atom.Article: true, atom.Header: true, atom.Footer: true, atom.Nav: true, atom.Aside: true, atom.Main: true,
	atom.Blockquote: true, atom.Hr: true, atom.Form: true, atom.Figure: true, atom.Figcaption: true, atom.Address: true,
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Option: true}

// block is text that grows by lines.
type block struct {
	strings.Builder
	pre     bool
	fresh   bool   // the line has no text yet
	prefix  string // written before it
	space   bool   // …or a space does
	visible int
}

// line begins a new line, unless the last is still empty.
func (b *block) line(prefix string) {
	b.fresh, b.space = true, false
	b.prefix = prefix
}

func (b *block) text(p []byte) {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		p = p[n:]
		if unicode.IsSpace(r) {
			if !b.pre {
				b.space = true
				continue
			}
			if b.fresh && r == '\n' {
				continue
			}
			b.WriteRune(r)
			continue
		}
		switch {
		case b.fresh && b.Len() > 0:
			b.WriteString("\n\n" + b.prefix)
		case b.fresh:
			b.WriteString(b.prefix)
		case b.space && b.Len() > 0:
			b.WriteByte(' ')
		}
		b.fresh, b.space, b.prefix = false, false, ""
		b.WriteRune(r)
		b.visible++
	}
}
