package search

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"farebox/config"
)

// upstreamOf is one that answers in a format.
func upstreamOf(t testing.TB, format string) *Upstream {
	t.Helper()
	f, known := new(config.Search).Format(&config.SearchUpstream{Format: format})
	if !known {
		t.Fatalf("the format %s is unknown", format)
	}
	return &Upstream{Name: format, Provider: "brave", format: f}
}

// braves is an answer of Brave with some results.
func braves(results ...string) []byte {
	return []byte(`{"web":{"results":[` + strings.Join(results, ",") + `]}}`)
}

// "A result had no date, and the client fell over a null."
func TestResultsHaveFourTexts(t *testing.T) {
	for _, c := range []struct{ format, answer, want string }{
		{"brave", `{"web":{"results":[{"title":"T","url":"https://a/","description":"C","page_age":"D","age":"E"}]}}`,
			"[{T https://a/ C D}]"},
		{"brave", `{"web":{"results":[{"title":"T","url":"https://a/","extra_snippets":["C","X"],"age":"E"}]}}`,
			"[{T https://a/ C E}]"},
		{"serper", `{"organic":[{"title":"T","link":"http://a/","snippet":"C","date":"D"},{"link":"https://b/"}]}`,
			"[{T http://a/ C D} { https://b/  }]"},
		{"searxng", `{"results":[{"title":"T","url":"https://a/","content":"C","publishedDate":null,"pubdate":"D"}]}`,
			"[{T https://a/ C D}]"},
		{"tavily", `{"results":[{"title":"T","url":"https://a/","content":"C","published_date":"D"}]}`,
			"[{T https://a/ C D}]"},
		{"exa", `{"results":[{"title":"T","url":"https://a/","highlights":["C","X"],"publishedDate":"D"}]}`,
			"[{T https://a/ C D}]"},
		{"exa", `{"results":[{"title":null,"url":"https://a/","highlights":[],"text":"C"}]}`, "[{ https://a/ C }]"},
		{"brave", `{"type":"search"}`, "[]"},
		{"brave", `{"web":{"results":[]}}`, "[]"},
		{"brave", `{"web":{"results":null}}`, "[]"},
	} {
		if got := fmt.Sprint(upstreamOf(t, c.format).results([]byte(c.answer), 20)); got != c.want {
			t.Errorf("%s: %s is read as %s, want %s", c.format, c.answer, got, c.want)
		}
	}
}

// "A service answered with a page of HTML, and the customer paid for nothing."
func TestAnswersOfAnotherKindAreReported(t *testing.T) {
	u := upstreamOf(t, "brave")
	for _, answer := range []string{"", " ", "<html>", "null", "1", `"x"`, "true", `{"web":`, `{"web":{}}x`,
		`{"web":{"results":[{"url":"https://a/"`, "{\"web\":\x00{}}", "[", `{"a":1,}`} {
		if list := u.results([]byte(answer), 20); list != nil {
			t.Errorf("%q is read as %v", answer, list)
		}
	}
}

// "A link of javascript: stood among the results, and somebody clicked on it."
func TestHostileResultsAreTamed(t *testing.T) {
	u := upstreamOf(t, "brave")
	for _, link := range []string{"javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//a/", "a", "",
		" javascript:alert(1)", "ftp://a/", "https:/a"} {
		if list := u.results(braves(fmt.Sprintf(`{"title":"T","url":%q}`, link)), 20); len(list) != 0 || list == nil {
			t.Errorf("the link %q is a result: %v", link, list)
		}
	}
	for _, one := range []string{`1`, `null`, `"x"`, `[]`, `{}`, `{"title":"T"}`, `{"url":["https://a/"]}`,
		`{"url":{"https://a/":1}}`, `{"url":true}`, `{"url":1}`} {
		if list := u.results(braves(one, `{"url":"https://ok/"}`), 20); len(list) != 1 || list[0].URL != "https://ok/" {
			t.Errorf("beside %s the results are %v", one, list)
		}
	}
	for value, want := range map[string]string{`12.5`: "12.5", `["x"]`: "", `{"x":1}`: "", `true`: "", `null`: "",
		`" \n x \t"`: "x", `"\u0000x"`: "x", `"\ud800"`: "\uFFFD", "\"a\xff\xfeb\"": "a\uFFFDb"} {
		list := u.results(braves(`{"url":"https://a/","title":`+value+`}`), 20)
		if len(list) != 1 || list[0].Title != want || !utf8.ValidString(list[0].Title) {
			t.Errorf("a title of %q is read as %q, want %q", value, list, want)
		}
	}
	long := strings.Repeat("é", 1<<20)
	list := u.results(braves(`{"url":"https://a/","title":"`+long+`","description":"`+long+`","age":"`+long+`"}`), 20)
	if len(list) != 1 || len(list[0].Title) > maxTitle || len(list[0].Content) > maxContent ||
		len(list[0].Date) > maxDate || !utf8.ValidString(fmt.Sprint(list)) {
		t.Errorf("long texts are cut to %.200s", fmt.Sprint(list))
	}
}

// A link whose end is cut off leads elsewhere, or nowhere.
func TestLinksAreWholeOrAbsent(t *testing.T) {
	u := upstreamOf(t, "brave")
	for _, tail := range []string{"x", "é", "€", "\U0001F600"} {
		link := "https://a/" + strings.Repeat(tail, maxLink)
		if list := u.results(braves(`{"url":"`+link+`"}`, `{"url":"https://b/"}`), 20); len(list) != 1 ||
			list[0].URL != "https://b/" {
			t.Errorf("the results are %.200v", list)
		}
	}
	link := "https://a/" + strings.Repeat("x", maxLink-len("https://a/"))
	if list := u.results(braves(`{"url":"`+link+`"}`), 20); len(list) != 1 || list[0].URL != link {
		t.Errorf("the longest link is not a result")
	}
}

// "More came back than was asked for."
func TestNoMoreResultsThanAskedFor(t *testing.T) {
	u := upstreamOf(t, "brave")
	many := strings.Split(strings.Repeat(`{"url":"https://a/"} `, 50), " ")
	for _, limit := range []int{1, 3, 20} {
		if list := u.results(braves(many[:50]...), limit); len(list) != limit {
			t.Errorf("%d results where %d were asked for", len(list), limit)
		}
	}
}

// "An answer of brackets ended the process: whoever read it called itself for
// each of them."
func TestDeepAnswersAreRefused(t *testing.T) {
	u := upstreamOf(t, "brave")
	for name, answer := range map[string]string{
		"arrays":                  strings.Repeat("[", maxAnswer/2) + strings.Repeat("]", maxAnswer/2),
		"an array without an end": strings.Repeat("[", maxAnswer),
		"objects":                 strings.Repeat(`{"a":`, maxAnswer/6) + "1" + strings.Repeat("}", maxAnswer/6),
		"one result": `{"web":{"results":[{"url":"https://a/","x":` + strings.Repeat("[", maxAnswer/3) +
			strings.Repeat("]", maxAnswer/3) + `}]}}`,
	} {
		began := time.Now()
		if list := u.results([]byte(answer), 20); list != nil {
			t.Errorf("%s: read as %v", name, list)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
}
