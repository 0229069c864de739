package scrape

import (
	"net/url"
	"strings"
	"testing"
)

// "A page of "Loading…" was charged for 14 characters."
// "A page of "Hello, world" was refused: it was short."
func TestShellsAreDistinguishedFromShortPages(t *testing.T) {
	t.Parallel()
	const script = `<script src="/bundle.js"></script>`
	banner := `<div id="cookie-banner"><p>We value your privacy. We and our 832 partners use cookies to store and access information ` +
		`on a device.</p><button>Accept all</button><button>Reject all</button><a href=/p>Privacy policy</a></div>`
	for page, want := range map[string]bool{
		`<title>App</title><div id="root">Loading…</div>` + script:                                          true,
		`<title>App</title><body><div id=app></div>` + script:                                               true,
		`<app-root><div class="spinner"></div><p>Please wait...</p></app-root>` + script:                    true,
		`<noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>` + script: true,
		`<p>Please enable <b>JavaScript</b> to continue.</p>`:                                               true,
		`<p>Loading...</p>`: true,
		`<header>MyApp</header><div id="root"></div>` + script:                              true,
		`<header>MyApp</header><div id="__next"><p>Loading 0%</p></div>` + script:           true,
		`<p>正在加载，请稍候...</p>` + script:                                                       true,
		`<p>Bitte warten</p><noscript>Bitte aktivieren Sie JavaScript.</noscript>` + script: true,
		banner + script:              true,
		`<script>var x = 1</script>`: true,
		`<nav><a href=/>Home</a><a href=/a>About us</a></nav><main id="app"></main><footer>© 2026</footer>` + script: true,

		`<p>Hello, world</p>`:          false,
		`<p>OK</p>`:                    false,
		`<p>Hello, world</p>` + script: false,
		`<div id="root"><h1>Hello, world</h1></div>` + script:                            false,
		`<div id="root"><p>OK</p></div><noscript>Enable JavaScript!</noscript>` + script: false,
		`<h1>All systems operational</h1><p>Last check: 12:00</p>` + script:              false,
		`<p>Loading docks of the harbour</p>`:                                            false,
		`<p>We use cookies to remember your cart.</p>`:                                   false,
		`<h1>404</h1>`: false,
		`<nav><a href=/a>One</a> <a href=/b>Two</a></nav>` + script:                                                   false,
		`<h1>JavaScript</h1><p>This course teaches the language of the web, from variables to promises.</p>` + script: false,
		article("") + banner + script:                                    false,
		`<div id=root></div>` + article("") + `<p>Loading…</p>` + script: false,
		`<html></html>`: false,
		`<p>` + strings.Repeat("Please enable JavaScript. ", 200): false,
	} {
		out, err := readPage([]byte(page), (&task{URL: "http://example.com/"}).word())
		if err != nil {
			t.Fatal(err)
		}
		if f, err := parseFound(out); err != nil || f.empty != want {
			t.Errorf("%.150s is empty: %v (%d characters: %.50q), %v", page, f.empty, f.visible, f.markdown, err)
		}
	}
}

// Refreshes as browsers read them.
func TestRefreshesAreRead(t *testing.T) {
	t.Parallel()
	base, _ := url.Parse("http://example.com/a/b?c")
	for content, want := range map[string]string{
		"0;url=/there": "http://example.com/there", "0; URL='x y'": "http://example.com/a/x%20y", " 5 , url = x": "http://example.com/a/x",
		"0;/there": "http://example.com/there", "0.9;url=x": "http://example.com/a/x", ".5;url=x": "http://example.com/a/x",
		"0 url=x": "http://example.com/a/x", `3; url="https://b.example/"rest`: "https://b.example/", "0;url=?d": "http://example.com/a/b?d",
		"0;urls": "http://example.com/a/urls",
		"":       "", "0": "", "5": "", "0;": "", "0;url=": "", "6;url=x": "", "99999999999999999999;url=x": "", "x;url=y": "", "-1;url=x": "",
		"0;url=javascript:alert(1)": "", "0;url=data:text/html,x": "", "0;url=ftp://example.com/": "", "0;url=mailto:a@b.example": "",
		"0;url=http://[::1": "", "0;url=/" + strings.Repeat("x", maxURL): "",
	} {
		if got := refreshOf(content, base); got != want {
			t.Errorf("%.80q leads to %q, want %q", content, got, want)
		}
	}
}
