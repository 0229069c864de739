package search

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Texts that would make a cleaner slow give a text in time.
func TestHostileTextsAreCleanedInTime(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]string{"open": "<b>", "unclosed": "<a ", "quoted": `<a b="`, "scripts": "<script>", "comments": "<!--",
		"entities": "&amp;", "less": "<", "joiners": "\u200d", "close": "</b>", "styles": "<style></style>x"} {
		began := time.Now()
		for _, markup := range []bool{false, true} {
			for range 4 {
				clean(strings.Repeat(piece, 1<<20/len(piece)), markup, maxContent)
			}
		}
		if took := time.Since(began); took > time.Minute { // one that is not linear takes hours
			t.Errorf("%s: %s", name, took)
		}
	}
}

// Whatever the text, the result is shorter and is text. Cleaning plain text again changes only
// text that was written as entities.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "<b>a</b>", "&amp;lt;b&amp;gt;", "a < b", "List<String>", "<script>x", "<!-- x --><p>y", `<a href="x>y">z</a>`,
		"<br>x<br/>", "\u200d\u200c\ufe0fx\ufe0f\ufe0f", "\x00&#0;&#55555;", "<STYLE>a</style >b"} {
		f.Add(s, true, 100)
	}
	f.Fuzz(func(t *testing.T, text string, markup bool, most int) {
		if most < 0 || most > 1<<16 || !utf8.ValidString(text) {
			return
		}
		got := clean(text, markup, most)
		if len(got) > most || !utf8.ValidString(got) || strings.TrimSpace(got) != got || strings.ContainsAny(got, "\n\t\x00\u200b") {
			t.Errorf("%q becomes %q", text, got)
		}
		if visible(got) != got {
			t.Errorf("%q, then %q", got, visible(got))
		}
	})
}
