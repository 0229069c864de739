package search

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"farebox/config"
)

// asked is the content of a request, whatever its form.
func asked(t *testing.T, u *Upstream, q *Query) map[string]any {
	t.Helper()
	r := u.request(q)
	said := map[string]any{}
	if r.Method == "GET" {
		at, err := url.Parse(string(r.Path))
		if err != nil || at.Path != u.format.Path || r.Body != nil {
			t.Fatalf("%s %s %s: %v", r.Method, r.Path, r.Body, err)
		}
		for name, values := range at.Query() {
			if len(values) != 1 {
				t.Errorf("%s is said %d times", name, len(values))
			}
			said[name] = values[0]
		}
		if strings.ContainsAny(string(r.Path), " \r\n\"") {
			t.Errorf("the path has invalid bytes: %q", r.Path)
		}
		return said
	}
	if string(r.Path) != u.format.Path {
		t.Errorf("the path is %s", r.Path)
	}
	if err := json.Unmarshal(r.Body, &said); err != nil {
		t.Fatalf("%s: %v", r.Body, err)
	}
	return said
}

// Each service is asked in its own words, and for no more than it gives.
func TestServicesAreAskedInTheirWords(t *testing.T) {
	for format, want := range map[string]map[string]any{
		"brave":   {"q": "a b", "count": "20", "result_filter": "web", "text_decorations": "false"},
		"serper":  {"q": "a b", "num": 20.0},
		"searxng": {"q": "a b", "format": "json"},
		"tavily":  {"query": "a b", "max_results": 20.0},
		"exa": {"query": "a b", "numResults": 20.0, "type": "auto",
			"contents": map[string]any{"highlights": true}},
	} {
		u := upstreamOf(t, format)
		if got := asked(t, u, &Query{Text: "a b", Limit: 20}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is asked %v, want %v", format, got, want)
		}
		u.format.Limit = 5
		got := asked(t, u, &Query{Text: "a b", Limit: 20})
		for _, name := range []string{"count", "num", "max_results", "numResults"} {
			if v := got[name]; v != nil && v != "5" && v != 5.0 {
				t.Errorf("%s, which gives 5 results, is asked for %v", format, v)
			}
		}
	}
}

// "A search for {limit} found 10, and one with a quotation mark broke the body."
func TestWordsArriveUnharmed(t *testing.T) {
	for _, words := range []string{"{limit}", "{query}", "{query} {limit} {query}", `say "x" \ \n`, "a&q=b&count=1#x",
		"100% %41 +", "line\r\none\ttwo", "日本語 \U0001F600", "\x00\x01\x7f", "</script>&<>", "\u2028", "a\xffb"} {
		for format, name := range map[string]string{"brave": "q", "serper": "q", "searxng": "q", "tavily": "query",
			"exa": "query"} {
			u := upstreamOf(t, format)
			u.params = map[string]string{"x": "{query}"}
			said := asked(t, u, &Query{Text: words, Limit: 7})
			want := words
			if u.format.Method == "POST" {
				want = strings.ToValidUTF8(words, "\uFFFD")
			}
			if said[name] != want || said["x"] != "{query}" {
				t.Errorf("%s is asked for %q beside %q, want %q", format, said[name], said["x"], want)
			}
		}
	}
}

// The operator's parameters are said as they are written, and win.
func TestParametersOfTheOperatorAreSent(t *testing.T) {
	params := map[string]string{"country": "DE", "a.b": "c", "count": "3", "num": "3"}
	for _, format := range []string{"brave", "serper"} {
		u := upstreamOf(t, format)
		u.params = params
		said := asked(t, u, &Query{Text: "x", Limit: 10})
		for name, value := range params {
			if said[name] != value {
				t.Errorf("%s gets %v as %s, want %s", format, said[name], name, value)
			}
		}
	}
}

// Words in a template of the operator are each in their place.
func TestTemplatesOfTheOperator(t *testing.T) {
	get := &Upstream{format: config.SearchFormat{Method: "GET", Path: "/find", Limit: 20,
		Query: map[string]string{"text": "site:a {query}", "most": "{limit}", "fixed": "yes"}}}
	if got := asked(t, get, &Query{Text: "{limit}&", Limit: 4}); !reflect.DeepEqual(got,
		map[string]any{"text": "site:a {limit}&", "most": "4", "fixed": "yes"}) {
		t.Errorf("asked %v", got)
	}
	post := &Upstream{format: config.SearchFormat{Method: "POST", Path: "/find", Limit: 20,
		Body: `{"in":[{"text":{query},"most":{limit}}]}`}}
	if got := asked(t, post, &Query{Text: `"{limit}"`, Limit: 4}); !reflect.DeepEqual(got,
		map[string]any{"in": []any{map[string]any{"text": `"{limit}"`, "most": 4.0}}}) {
		t.Errorf("asked %v", got)
	}
}
