package scrape

import (
	"strings"
	"testing"
)

func markdownOf(t testing.TB, page, url string) string {
	t.Helper()
	out, err := readPage([]byte(page), (&task{ContentType: "text/html", URL: url}).word())
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFound(out)
	if err != nil {
		t.Fatal(err)
	}
	return f.markdown
}

// Tables, lists, code with its language, links and images come through, whole.
func TestAPageIsMarkdown(t *testing.T) {
	t.Parallel()
	page := article(`<h2>Second <em>heading</em></h2>
<p>A <a href="../b?x=1&amp;y=2#z">relative link</a>, one <a href="//other.example/c">without a scheme</a>, one
<a href="javascript:alert(1)">that runs</a>, and <strong>bold</strong> words to make it long enough to keep.</p>
<img src="/i.png" alt="A picture"><img src="data:image/png;base64,AAAA" data-src="lazy.png" alt="Late">
<ul><li>one, with enough words in it</li><li>two<ol><li>two a</li></ol></li></ul>
<div class="highlight highlight-source-go"><pre>func main() {
	<span>println</span>("a")
}</pre></div>
<pre><code class="hljs language-python">print("_a_")</code></pre>
<pre data-lang="x y">plain</pre>
<table><thead><tr><th>Name</th><th>Price</th></tr></thead><tbody><tr><td>Pear | apple</td><td>1</td></tr>
<tr><td>Plum</td><td>2</td></tr></tbody></table>
<blockquote><p>Said &lt;somebody&gt;.</p></blockquote>`)
	md := markdownOf(t, page, "https://example.com/a/page.html")
	for _, want := range []string{
		"# A title\n", "## Second *heading*", "[relative link](https://example.com/b?x=1&y=2#z)",
		"[without a scheme](https://other.example/c)", "**bold**", "- one, with enough words in it",
		"println", "| Name |", "| Plum |", "![A picture](https://example.com/i.png)",
		"![Late](https://example.com/a/lazy.png)", "```go\nfunc main() {\n\tprintln(\"a\")\n}\n```",
		"```python\nprint(\"_a_\")\n```", "```\nplain\n```", `Pear \| apple`, "> Said &lt;somebody&gt;.",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	for _, no := range []string{"Imprint", "javascript:", "data:image"} {
		if strings.Contains(md, no) {
			t.Errorf("%q in\n%s", no, md)
		}
	}
	if md := markdownOf(t, `<base href="http://cdn.example/x/"><base href="http://not.example/">`+article(
		`<p><a href="y">a link with some words</a> and text around it, long enough to be kept by anyone.</p>`),
		"https://example.com/"); !strings.Contains(md, "(http://cdn.example/x/y)") {
		t.Error(md)
	}
}

// A page without an article gives all its text but the frame; an empty page gives none.
func TestSmallPagesAreWhole(t *testing.T) {
	t.Parallel()
	md := markdownOf(t, `<title>Example</title><nav>menu</nav><div><h1>Example Domain</h1><p>For use in documents.</p>
<a href=more>More</a></div>`, "http://example.com/")
	if md != "# Example Domain\n\nFor use in documents.\n\n[More](http://example.com/more)" {
		t.Errorf("%q", md)
	}
	for _, page := range []string{"", "<html><body><div id=root></div><script>let a = 'text'</script></body></html>",
		"<title>Only a title</title>", "<style>a{}</style><noscript>text</noscript>"} {
		if md := markdownOf(t, page, "http://example.com/"); md != "" {
			t.Errorf("%q: %q", page, md)
		}
	}
}

// Pages that are too much for a tree give their text, in little time.
func TestPagesTooStrangeForATreeGiveTheirText(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("<div>", 200_000) + "<h2>The end</h2>of it &amp; more<script>no</script><ul><li>a<li>b</ul>"
	if md := markdownOf(t, deep, "http://example.com/"); md !=
		"## The end\n\nof it & more\n\n- a\n\n- b" {
		t.Errorf("%.200q", md)
	}
	many := strings.Repeat("<p>x", 250_000)
	if md := markdownOf(t, many, "http://example.com/"); strings.Count(md, "x") != 250_000 {
		t.Errorf("%d", len(md))
	}
	links := "<base href='http://example.com/" + strings.Repeat("long/", 1500) + "'>" + article(
		strings.Repeat("<p>Some words of text, <a href=a>and a link</a>, in a row.</p>", 20_000))
	if md := markdownOf(t, links, "http://example.com/"); len(md) > 8<<20 || len(md) < 1<<20 {
		t.Errorf("%d bytes", len(md))
	}
	spans := article("<table><tr><td colspan=100000 rowspan=100000>a<td>b</table>")
	if md := markdownOf(t, spans, "http://example.com/"); len(md) > 1<<20 {
		t.Errorf("%d bytes", len(md))
	}
}

// Whatever a page is like, the job gives text, in bounds.
func FuzzReadPage(f *testing.F) {
	for _, s := range []string{"", "text", article("<table><tr><td>a<td>b</table>"), "<a href=javascript:x>y</a>",
		"<pre class=language-go>x\n\ny</pre>", strings.Repeat("<b><i>", 600), "<ul><li><ul><li>a</ul></ul>",
		"<base href='http://[::1'><a href='?x'>a</a>", "<title>\x00</title>\xff\xfe", "<svg><title>a</title></svg>",
		"<table><tr><td colspan=9999><table><tr><td>x</table></table>",
		"<img src=data:x data-src=y><noscript><img></noscript>",
		"<meta http-equiv=refresh content='0;url=/a'><p>moved", "<noscript><meta http-equiv=refresh content=0;b></noscript>",
		"<div id=root>Loading…</div><script src=a></script>", "<app-root><p>Please enable JavaScript", "<p>We use cookies<button>OK"} {
		f.Add([]byte(s), "text/html")
	}
	f.Add([]byte("\x1b$B$3"), "text/html; charset=iso-2022-jp")
	f.Fuzz(func(t *testing.T, page []byte, contentType string) {
		if len(page) > 16<<10 {
			return
		}
		out, err := readPage(page, (&task{ContentType: contentType, URL: "http://example.com/a"}).word())
		if err != nil {
			t.Fatal(err)
		}
		found, err := parseFound(out)
		if err != nil {
			t.Fatal(err)
		}
		if len(found.markdown) > 4<<20 {
			t.Errorf("%d bytes of %d", len(found.markdown), len(page))
		}
		if _, err := readText(page, (&task{URL: "http://example.com/"}).word()); err != nil {
			t.Error(err)
		}
	})
}

// A job's word has room for the part of a URL that relative links need, however long.
func TestAWordHasItsBounds(t *testing.T) {
	t.Parallel()
	f := func(in, want string) {
		t.Helper()
		w := (&task{ContentType: strings.Repeat("x", 5000), URL: in}).word()
		got, base, err := parseTask(w)
		if err != nil || len(w) > maxWord || got.URL != want || base.String() != want || len(got.ContentType) != 200 {
			t.Errorf("%d bytes: %v %.80s", len(w), err, got.URL)
		}
	}
	f("http://example.com/a?b=c", "http://example.com/a?b=c")
	f("http://example.com/a?b="+strings.Repeat("ü", 3000), "http://example.com/a")
	f("http://example.com/"+strings.Repeat("a/", 3000)+"?b", "http://example.com/")
}
