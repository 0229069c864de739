package scrape

import (
	"bytes"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxTags bounds the tags of a page that is parsed into a tree. Of 983 pages of all
	// kinds none has 20,000.
	maxTags = 200_000
	// fewChars of main content are trusted only if the rest of the page is short.
	fewChars = 140
)

var errTooMany = errors.New("too many elements for a tree")

// extract is the main content of a page as Markdown. Only the jail bounds its time.
func extract(page []byte, at *url.URL) (found, error) {
	if bytes.Count(page, []byte("<")) > maxTags {
		return found{}, errTooMany
	}
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return found{}, err // above all: more than 512 elements inside each other
	}
	title, base := prepare(doc, at)
	looks := shellOf(doc)
	next, always := refresh(doc, base)
	var main *html.Node
	p := readability.NewParser()
	p.KeepClasses = true // they name the language of code
	p.DisableJSONLD = true
	if article, err := p.ParseAndMutate(doc, at); err == nil {
		main = article.Node
	}
	f, err := markdown(main)
	if err != nil || f.visible < fewChars {
		if whole, err := wholePage(page, at); err == nil && (whole.visible < 4*fewChars || f.visible == 0) {
			f = whole
		}
	}
	if f.visible > 0 {
		f.markdown = titled(f.markdown, title)
	} else {
		f = plainText(page)
	}
	f.next, f.always, f.empty = next, always, looks.empty(f.visible)
	return f, nil
}

// titled puts the page's title over content that does not begin with one.
func titled(markdown, title string) string {
	if title == "" || strings.HasPrefix(markdown, "# ") {
		return markdown
	}
	return "# " + title + "\n\n" + markdown
}

// wholePage is all of a page but its frame, for pages that are not articles.
func wholePage(page []byte, at *url.URL) (found, error) {
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return found{}, err
	}
	prepare(doc, at)
	each(doc, func(n *html.Node) {
		switch n.DataAtom {
		case atom.Nav, atom.Footer, atom.Aside, atom.Form, atom.Svg, atom.Template, atom.Dialog, atom.Button, atom.Select:
			if n.Parent != nil {
				n.Parent.RemoveChild(n)
			}
		}
	})
	return markdown(doc)
}

// toMarkdown is made once: making it costs as much as a small page.
var toMarkdown = converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(
	commonmark.WithListEndComment(false), commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip),
	commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip)),
	// Cells as wide as the widest would multiply a page by its longest word.
	table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
		table.WithHeaderPromotion(true), table.WithSkipEmptyRows(true),
		table.WithNewlineBehavior(table.NewlineBehaviorPreserve))))

func markdown(n *html.Node) (found, error) {
	if n == nil {
		return found{}, nil
	}
	out, err := toMarkdown.ConvertNode(n)
	if err != nil {
		return found{}, err
	}
	out = bytes.ToValidUTF8(bytes.TrimSpace(out), []byte("\uFFFD"))
	return found{visible: visible(out), markdown: string(out)}, nil
}

// visible counts the characters that a reader sees, without the addresses of
// links and without spaces.
func visible(md []byte) (n int) {
	for i := 0; i < len(md); {
		if md[i] == ']' && i+1 < len(md) && md[i+1] == '(' {
			if end := bytes.IndexByte(md[i:], ')'); end > 0 {
				i += end + 1
				continue
			}
		}
		c := md[i]
		i++
		if c >= 0x80 {
			if c >= 0xc0 {
				n++
			}
			continue
		}
		if !unicode.IsSpace(rune(c)) && strings.IndexByte("#*_|>[]!`-", c) < 0 {
			n++
		}
	}
	return n
}

// linkRoom bounds the growth of a page when its links become absolute: a thousand short
// links to a long base would multiply it.
const linkRoom = 2 << 20

// prepare makes addresses absolute, before anything moves, and keeps parts that readability
// would lose. It gives the title, and the base that addresses were completed with.
func prepare(doc *html.Node, at *url.URL) (title string, base *url.URL) {
	whole := *at
	based := false
	each(doc, func(n *html.Node) {
		switch {
		case n.DataAtom == atom.Base && !based:
			if u, err := at.Parse(strings.TrimSpace(attr(n, "href"))); err == nil && attr(n, "href") != "" &&
				(u.Scheme == "http" || u.Scheme == "https") && len(u.String()) <= maxURL {
				whole, based = *u, true
			}
		case n.DataAtom == atom.Title && title == "" && n.Namespace == "" && n.FirstChild != nil:
			title = oneLine(n.FirstChild.Data)
		}
	})
	room := linkRoom
	each(doc, func(n *html.Node) {
		switch n.DataAtom {
		case atom.A:
			absolute(n, "href", &whole, &room)
		case atom.Img:
			if src := attr(n, "src"); src == "" || len(src) > 5 && strings.EqualFold(src[:5], "data:") {
				for _, lazy := range []string{"data-src", "data-original", "data-lazy-src"} {
					if v := attr(n, lazy); v != "" {
						set(n, "src", v)
						break
					}
				}
			}
			absolute(n, "src", &whole, &room)
		case atom.Td, atom.Th:
			span(n, "colspan")
			span(n, "rowspan")
		case atom.Pre:
			if l := language(n); l != "" {
				set(n, "class", "language-"+l)
			}
		}
	})
	return title, &whole
}

// absolute makes an address absolute, and removes one that leads nowhere.
func absolute(n *html.Node, key string, at *url.URL, room *int) {
	raw := strings.TrimSpace(attr(n, key))
	if raw == "" {
		return
	}
	if *room <= 0 {
		unset(n, key)
		return
	}
	u, err := at.Parse(raw)
	if err != nil {
		unset(n, key)
		return
	}
	switch u.Scheme {
	case "http", "https", "mailto", "tel":
	default: // javascript:, data: and other schemes that are not followed here
		unset(n, key)
		return
	}
	s := u.String()
	*room -= max(0, len(s)-len(raw))
	if len(s) > maxURL {
		unset(n, key)
		return
	}
	set(n, key, s)
}

// maxSpan bounds the rows or columns of a cell: each becomes a cell of its own.
const maxSpan = 24

func span(n *html.Node, key string) {
	if v := attr(n, key); v != "" {
		if k, err := strconv.Atoi(v); err != nil || k > maxSpan {
			unset(n, key)
		}
	}
}

// language is that of a block of code, as highlighters write it: on the block, on its
// child, or on its parent.
func language(pre *html.Node) string {
	near := []*html.Node{pre, pre.FirstChild, pre.Parent}
	if pre.Parent != nil {
		near = append(near, pre.Parent.Parent)
	}
	for _, n := range near {
		if n == nil || n.Type != html.ElementNode {
			continue
		}
		for _, key := range []string{"data-lang", "data-language", "lang"} {
			if v := attr(n, key); v != "" && (key != "lang" || n == pre) {
				return word(v)
			}
		}
		names := strings.Fields(attr(n, "class"))
		for i, name := range names {
			for _, before := range []string{"language-", "lang-", "highlight-source-", "brush:"} {
				if l, ok := strings.CutPrefix(name, before); ok {
					if l == "" && i+1 < len(names) {
						l = names[i+1]
					}
					return word(l)
				}
			}
			if name == "sourceCode" && i+1 < len(names) { // pandoc's
				return word(names[i+1])
			}
		}
	}
	return ""
}

// word is a language's name that can follow a fence.
func word(s string) string {
	s = strings.Trim(strings.ToLower(s), " ;")
	if len(s) > 20 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789+-#_.") != "" {
		return ""
	}
	return s
}

func oneLine(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(s[:min(len(s), 4*most)]), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most])
	}
	return strings.ToValidUTF8(s, "")
}

// each calls f for all elements, without recursion; f may remove its element.
func each(n *html.Node, f func(*html.Node)) {
	for at := n.FirstChild; at != nil && at != n; {
		next := at.FirstChild
		up := at
		for next == nil && up != n {
			next = up.NextSibling
			up = up.Parent
		}
		if at.Type == html.ElementNode {
			parent, after := at.Parent, at.NextSibling
			f(at)
			if at.Parent == nil && parent != nil { // removed, with all below
				for next = after; next == nil && parent != n; parent = parent.Parent {
					next = parent.NextSibling
				}
			}
		}
		at = next
	}
}

func attr(n *html.Node, key string) string {
	for i := range n.Attr {
		if n.Attr[i].Key == key && n.Attr[i].Namespace == "" {
			return n.Attr[i].Val
		}
	}
	return ""
}

func set(n *html.Node, key, value string) {
	for i := range n.Attr {
		if n.Attr[i].Key == key && n.Attr[i].Namespace == "" {
			n.Attr[i].Val = value
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}

func unset(n *html.Node, key string) {
	for i := range n.Attr {
		if n.Attr[i].Key == key && n.Attr[i].Namespace == "" {
			n.Attr = append(n.Attr[:i], n.Attr[i+1:]...)
			return
		}
	}
}
