package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"farebox/routes"
)

func citesOf(keep bool) *cites {
	return &cites{keep: keep, found: []routes.WebText{{URL: "https://a.example", Title: "A", Text: "Of  A."},
		{URL: "https://b.example", Title: "B"}}}
}

// cited returns a stream as a client reads it: the text, and for each annotation the url
// and the characters that it cites.
func cited(t *testing.T, s *cites, pieces []string) (text string, notes []string) {
	t.Helper()
	type part struct {
		Content     string
		Annotations []struct {
			Type string
			URL  struct {
				URL        string
				Start, End int
				StartIndex int `json:"start_index"`
				EndIndex   int `json:"end_index"`
			} `json:"url_citation"`
		}
	}
	var list []part
	for i, piece := range pieces {
		quoted, _ := json.Marshal(piece)
		finish := "null"
		if i == len(pieces)-1 {
			finish = `"stop"`
		}
		out := citeStream(s, []byte(`data: {"id":"x","choices":[{"index":0,"delta":{"content":`+string(quoted)+
			`},"finish_reason":`+finish+"}]}\n\n"))
		data, ok := strings.CutPrefix(strings.TrimSuffix(string(out), "\n\n"), "data: ")
		var event struct{ Choices []struct{ Delta part } }
		if err := json.Unmarshal([]byte(data), &event); err != nil || !ok || len(event.Choices) != 1 {
			t.Fatalf("%v: %q", err, out)
		}
		list = append(list, event.Choices[0].Delta)
	}
	for _, p := range list {
		text += p.Content
	}
	for _, p := range list {
		for _, a := range p.Annotations {
			notes = append(notes, a.URL.URL+" "+string([]rune(text)[a.URL.StartIndex:a.URL.EndIndex]))
		}
	}
	return text, notes
}

// citeStream is the stream's events with annotations.
func citeStream(s *cites, events []byte) []byte {
	return rewriteEvents(events, func(data []byte) []byte { return s.rewrite(data, "delta", false) })
}

// However the text is cut, each mark is removed and becomes annotations of the sentence before it.
func TestMarksBecomeAnnotations(t *testing.T) {
	for _, row := range []struct {
		said, text string
		notes      []string
	}{
		{"Rivers move ^1^. They bend.^1,2^ Fin", "Rivers move. They bend. Fin",
			[]string{"https://a.example Rivers move", "https://a.example They bend.", "https://b.example They bend."}},
		{"Größe 3.14 m ^2^\nNext ^1^^2^", "Größe 3.14 m\nNext",
			[]string{"https://b.example Größe 3.14 m", "https://a.example Next", "https://b.example Next"}},
		{"He said \"go.\" 😀 then ^2^", "He said \"go.\" 😀 then", []string{"https://b.example 😀 then"}},
		{"x^2 and 2^3^ or ^9^ or ^1", "x^2 and 2^3^ or ^9^ or ^1", nil},
		{"^" + strings.Repeat("1", 100) + "^", "^" + strings.Repeat("1", 100) + "^", nil},
		{"trailing space ", "trailing space ", nil},
	} {
		for size := 1; size <= 7; size++ {
			var pieces []string
			for rest := []rune(row.said); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				pieces = append(pieces, string(rest[:min(size, len(rest))]))
			}
			text, notes := cited(t, citesOf(false), append(pieces, ""))
			if text != row.text || strings.Join(notes, "|") != strings.Join(row.notes, "|") {
				t.Errorf("%q in pieces of %d:\n%q\n%q", row.said, size, text, notes)
			}
			if text, notes := cited(t, citesOf(true), append(pieces, "")); text != row.said || len(notes) != len(row.notes) {
				t.Errorf("%q with its marks in pieces of %d:\n%q\n%q", row.said, size, text, notes)
			}
		}
	}
}

// Escapes of all kinds, unknown members and the upstream's own annotations stay.
func TestCitedAnswersKeepAllElse(t *testing.T) {
	got := string(citesOf(false).whole([]byte(`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"\ud83d\ude00 a^1^","annotations":[{"type":"mine"}],"more":1},"finish_reason":"stop"}],"usage":{}}`)))
	want := `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","more":1,"content":"\ud83d\ude00 a","annotations":[` +
		`{"type":"url_citation","url_citation":{"url":"https://a.example","title":"A","content":"Of A.","start_index":0,"end_index":3}},` +
		`{"type":"mine"}]},"finish_reason":"stop"}],"usage":{}}`
	if got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	for _, same := range []string{"data: [DONE]\n\n", ": comment\n\n", `data: {"choices":[]}` + "\n\n",
		`data: {"choices":[{"index":-1,"delta":{"content":"^1^"}}]}` + "\n\n", "data: {\"choices\":[{\"index\":0,\"delta\""} {
		if out := string(citeStream(citesOf(false), []byte(same))); out != same {
			t.Errorf("%q became %q", same, out)
		}
	}
}

// FuzzCites: an answer stays JSON whatever its text, and no word is lost.
func FuzzCites(f *testing.F) {
	f.Add("Rivers move ^1^.", "They bend.^1,2^")
	f.Add("\\ \" ^", "1^ \u2028 😀")
	f.Add(" ^1", ",2")
	f.Fuzz(func(t *testing.T, first, second string) {
		text, _ := cited(t, citesOf(true), []string{first, second})
		a, _ := json.Marshal(first)
		b, _ := json.Marshal(second)
		var x, y string
		_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y)
		if text != x+y {
			t.Errorf("%q + %q became %q", first, second, text)
		}
	})
}
