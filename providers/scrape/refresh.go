package scrape

import (
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// soon is the longest wait, in seconds, of a refresh that is a redirect. After a longer one a
// reader has read the page.
const soon = 5

// refreshOf reads the content of a refresh, as browsers do: "0; url=/there". It is empty for
// a late one, or one without a valid URL.
func refreshOf(content string, base *url.URL) string {
	if len(content) > maxURL+64 {
		return ""
	}
	digits := strings.TrimLeft(content, " \t\r\n\f")
	rest := strings.TrimLeft(digits, "0123456789")
	digits = digits[:len(digits)-len(rest)]
	if n, err := strconv.Atoi(digits); err != nil && !strings.HasPrefix(rest, ".") || n > soon {
		return ""
	}
	rest = strings.TrimLeft(strings.TrimLeft(rest, ".0123456789"), " \t\r\n\f")
	rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(rest, ";"), ","), " \t\r\n\f")
	if len(rest) > 3 && strings.EqualFold(rest[:3], "url") {
		if value, ok := strings.CutPrefix(strings.TrimLeft(rest[3:], " \t\r\n\f"), "="); ok {
			rest = strings.TrimLeft(value, " \t\r\n\f")
		}
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		rest, _, _ = strings.Cut(rest[1:], rest[:1])
	}
	u, err := base.Parse(strings.TrimSpace(rest))
	if rest == "" || err != nil || u.Scheme != "http" && u.Scheme != "https" || len(u.String()) > maxURL {
		return ""
	}
	return u.String()
}

// refresh finds the redirect of a page. One in the head is always followed. A browser
// without scripts follows one in noscript as well, and authors of comments may write one in
// the body: those are followed when there is little else.
func refresh(doc *html.Node, base *url.URL) (to string, always bool) {
	each(doc, func(n *html.Node) {
		switch {
		case to != "" && always:
		case n.DataAtom == atom.Meta && strings.EqualFold(strings.TrimSpace(attr(n, "http-equiv")), "refresh"):
			if link := refreshOf(attr(n, "content"), base); link != "" {
				in := n.Parent != nil && n.Parent.DataAtom == atom.Head
				if to == "" || in {
					to, always = link, in
				}
			}
		case n.DataAtom == atom.Noscript && to == "" && n.FirstChild != nil && n.FirstChild.Type == html.TextNode:
			to = refreshIn(n.FirstChild.Data, base)
		}
	})
	return to, always
}

// refreshIn searches the content of a noscript, which a parser takes for text.
func refreshIn(text string, base *url.URL) (to string) {
	z := html.NewTokenizer(strings.NewReader(text))
	for to == "" {
		switch z.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			if t := z.Token(); t.DataAtom == atom.Meta {
				n := &html.Node{Attr: t.Attr}
				if strings.EqualFold(strings.TrimSpace(attr(n, "http-equiv")), "refresh") {
					to = refreshOf(attr(n, "content"), base)
				}
			}
		}
	}
	return to
}
