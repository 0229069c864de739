package routes

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostErrorBytes is the most that an error may have, whatever it echoes.
const mostErrorBytes = 128 << 10

// An error is JSON of bounded size and depth, whatever it echoes to the client.
func FuzzErrorBody(f *testing.F) {
	f.Add("plain", "messages.0.content", "string", 1)
	f.Add("dots", "metadata."+strings.Repeat(".", 5000), "x", 20)
	f.Add("deep", strings.Repeat("a.", 5000), "<&>", 3)
	f.Add("long", strings.Repeat("é", 5000), strings.Repeat("\x00", 5000), 200)
	f.Add(strings.Repeat("\x80", 9000), "\xff.\xff", "\xf0\x9f", 101)
	f.Fuzz(func(t *testing.T, message, path, text string, n int) {
		e := &Error{Status: 400, Code: "INVALID_REQUEST", Message: message, Custom: text}
		for i := range min(max(n, 0), 300) {
			// Paths that differ at their beginning make the widest trees.
			e.Issues = append(e.Issues, Issue{Code: "custom", Path: string(rune('a'+i)) + path, Message: message,
				Expected: text, Received: path, Options: []string{text}})
		}
		for _, shape := range []ErrorShape{ShapeString, ShapeObject} {
			raw := AppendError(nil, e, shape, nil)
			if !json.Valid(raw) || !utf8.Valid(raw) {
				t.Fatalf("not JSON: %s", raw)
			}
			if len(raw) > mostErrorBytes {
				t.Fatalf("%d bytes", len(raw))
			}
			if d := depthOf(raw); d > maxPathParts+3 { // the body, details, and a list of texts
				t.Fatalf("%d levels", d)
			}
		}
	})
}

// depthOf is how deep objects and arrays nest in a JSON text.
func depthOf(raw []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(raw))
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

func TestLongTextsAreCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcdefgh", 6, "abc…"},
		{"ééééé", 6, "é…"},
		{"日本語", 7, "日…"},
		{"\x80\x80\x80\x80\x80", 4, "…"},
	} {
		if got := clip(c.text, c.most); got != c.want || len(got) > c.most {
			t.Errorf("clip(%q, %d) = %q", c.text, c.most, got)
		}
	}
}

// The tree has one node a member, in the order in which the issues came.
func TestDetailsNestByMember(t *testing.T) {
	got := string(appendDetails(nil, []Issue{
		{Path: "b.0.x", Message: "1"}, {Path: "a", Message: "2"}, {Path: "b.0", Message: "3"},
		{Path: "b.1", Message: "4"}, {Path: "", Message: "5"}, {Path: "b.0.x", Message: "6"},
	}))
	want := `{"_errors":["5"],"b":{"_errors":[],"0":{"_errors":["3"],"x":{"_errors":["1","6"]}},"1":{"_errors":["4"]}},"a":{"_errors":["2"]}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
