package upstream

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// Services that search the web, each by its own words: /search/brave, /search/serper,
// /search/searxng, /search/tavily and /search/exa. Their results depend on the words alone.

// found makes the results of all of them.
func found(words string, n int) (titles, links, texts []string) {
	for i := range n {
		titles = append(titles, fmt.Sprintf("Result %d for \u201c%s\u201d", i+1, words))
		links = append(links, fmt.Sprintf("https://example.org/%s/%d", url.PathEscape(words), i+1))
		texts = append(texts, fmt.Sprintf("Page %d says something about %s.", i+1, words))
	}
	return titles, links, texts
}

// searchService is how one of them is asked and answers.
type searchService struct {
	method, path string
	words, count string // the names of the two; count "": it cannot be asked for
	results      string // where they are
	entry        string // a format of title, link and text as JSON strings
}

var searchServices = map[string]searchService{
	"brave": {
		method: "GET", path: "/res/v1/web/search", words: "q", count: "count",
		results: `{"type":"search","web":{"type":"search","results":[%s]}}`,
		entry: `{"title":%s,"url":%s,"description":%s,"page_age":"2026-10-01T00:00:00","age":"October 1, 2026",` +
			`"family_friendly":true}`,
	},
	"serper": {
		method: "POST", path: "/search", words: "q", count: "num",
		results: `{"searchParameters":{"type":"search","engine":"google"},"organic":[%s],"credits":1}`,
		entry:   `{"title":%s,"link":%s,"snippet":%s,"position":1}`,
	},
	"searxng": {
		method: "GET", path: "/search", words: "q",
		results: `{"query":"","number_of_results":0,"results":[%s],"answers":[],"suggestions":[]}`,
		entry:   `{"title":%s,"url":%s,"content":%s,"engine":"simulated","publishedDate":null}`,
	},
	"tavily": {
		method: "POST", path: "/search", words: "query", count: "max_results",
		results: `{"query":"","answer":null,"results":[%s],"response_time":0.2}`,
		entry:   `{"title":%s,"url":%s,"content":%s,"score":0.9}`,
	},
	"exa": {
		method: "POST", path: "/search", words: "query", count: "numResults",
		results: `{"requestId":"sim","results":[%s]}`,
		entry:   `{"title":%s,"url":%s,"highlights":[%s],"publishedDate":"2026-10-01T00:00:00.000Z"}`,
	},
}

// searchOf finds the service of a path; ok: the service has the path.
func searchOf(path string) (name string, s searchService, ok bool) {
	rest, ok := strings.CutPrefix(path, "/search/")
	if !ok {
		return "", s, false
	}
	name, below, _ := strings.Cut(rest, "/")
	s, ok = searchServices[name]
	return name, s, ok && "/"+below == s.path
}

// searched reads the parameters of a search as one object: of a query, its values.
func (c *conn) searched(s *searchService, query string) (gjson.Result, bool) {
	if s.method == "POST" {
		asked := gjson.ParseBytes(c.req.body)
		return asked, gjson.ValidBytes(c.req.body) && asked.IsObject()
	}
	values, err := url.ParseQuery(query)
	out := []byte{'{'}
	for name, list := range values {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = appendString(append(appendString(out, name), ':'), list[0])
	}
	return gjson.ParseBytes(append(out, '}')), err == nil
}

// search answers one of them. x.units counts searches that were carried out.
func (c *conn) search(x *exchange, name string, s *searchService, query string) (int, bool, error) {
	x.endpoint = "search"
	reject := func(status int, text string) (int, bool, error) {
		return c.refuse(x, false, status, failure{kind: "invalid_request_error", text: text})
	}
	asked, ok := c.searched(s, query)
	if string(c.req.method) != s.method {
		return reject(405, "method not allowed")
	}
	if f := c.check(Call{API: "search", Vendor: name, Asked: asked}); f.Text != "" || !ok {
		return reject(cmp.Or(f.Status, 422), cmp.Or(f.Text, "the request cannot be read"))
	}
	words, n := asked.Get(s.words).String(), 10
	if s.count == "" {
		n = 20
	} else if v := asked.Get(s.count); v.Exists() {
		n = int(min(max(v.Int(), 0), 100))
	}
	if x.sc.Tokens.Set { // how many there are
		n = min(n, x.sc.Tokens.N)
	}
	if err := c.pause(x.sc.Think); err != nil {
		return 0, false, err
	}
	x.units = 1
	titles, links, texts := found(words, n)
	var list []string
	for i := range titles {
		list = append(list, fmt.Sprintf(s.entry, quoted(titles[i]), quoted(links[i]), quoted(texts[i])))
	}
	return c.sendBody(x, fmt.Appendf(nil, s.results, strings.Join(list, ",")))
}

func quoted(s string) []byte { return appendString(nil, s) }

// header is the value of a request's header.
func (c *conn) header(name string) []byte {
	for _, line := range bytes.Split(c.req.head, crlf) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && strings.EqualFold(string(key), name) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}

// sitePage is a page to scrape: an article between a menu and a footer.
const sitePage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>How rivers move</title></head><body>
<nav><ul><li><a href="/site/">Home</a></li><li><a href="/site/shop">Shop</a></li></ul></nav>
<article><h1>How rivers move</h1>
<p>A river does not stay where it is. It takes sand from the outer side of every bend and leaves it at the inner side,
so that bends grow and wander down the valley. This page is served by the simulated upstream, to be scraped.</p>
<h2>What carries the sand</h2>
<p>Fast water lifts grains and slow water drops them. The table below says how fast water must be to lift what lies on
its bed, and <a href="/site/more">another page</a> has more about it.</p>
<table><thead><tr><th>What</th><th>Speed</th></tr></thead><tbody><tr><td>Sand</td><td>0.3 m/s</td></tr>
<tr><td>Gravel</td><td>1 m/s</td></tr></tbody></table>
<pre><code class="language-go">speed := length / time</code></pre>
<p>Where the bends come close to each other the river one day breaks through, and what is cut off becomes a lake.</p>
</article><footer>Accept our cookies. All rights reserved.</footer></body></html>`

// site serves pages to scrape.
func (c *conn) site(x *exchange, path string) (int, bool, error) {
	x.endpoint, x.units = "site", 1
	if path == "/robots.txt" {
		return c.reply(x.sc, 200, "text/plain", []byte("User-agent: *\nDisallow: /site/private\n"))
	}
	return c.reply(x.sc, 200, contentHTML+"; charset=utf-8", []byte(sitePage))
}
