package chat

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"farebox/tests/rig"
)

// marked is the model's text, cut where its stream is.
var marked = []string{"Rivers move ^", "1^. Lakes", " stay.^1,", "2^ Hi"}

// saysMarked answers as an upstream of OpenAI's dialect does.
func saysMarked(c net.Conn, body string) {
	usage := `"usage":{"prompt_tokens":50,"completion_tokens":12,"total_tokens":62}`
	if !strings.Contains(body, `"stream":true`) {
		rig.Sends(rig.HTTPAnswer(200, "application/json", `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"`+
			strings.Join(marked, "")+`"},"logprobs":null,"finish_reason":"stop"}],`+usage+`}`))(c, body)
		return
	}
	events := ""
	chunk := func(choices, more string) {
		events += `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choices + `]` + more + "}\n\n"
	}
	chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "")
	for _, piece := range marked {
		chunk(`{"index":0,"delta":{"content":"`+piece+`"},"finish_reason":null}`, "")
	}
	chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "")
	chunk("", ","+usage)
	rig.Sends(rig.HTTPAnswer(200, "text/event-stream", events+"data: [DONE]\n\n"))(c, body)
}

// Each kind of client gets the sources in its own form, whole and in a stream. Clients of the
// specification keep the marks.
func TestSourcesComeInTheFormOfTheClient(t *testing.T) {
	t.Parallel()
	w := newWeb(t)
	u := rig.StartRaw(t, saysMarked)
	g := rig.StartGateway(t, fmt.Sprintf(strings.Replace(searchConfig, "responses_events: sdk", "responses_events: auto", 1), u.URL, w.URL, w.port()))
	g.NewAccount("a", "5")
	key := g.Key("a")
	const clean, kept = "Rivers move. Lakes stay. Hi", "Rivers move ^1^. Lakes stay.^1,2^ Hi"
	package1 := []string{"X-Stainless-Lang", "js"}
	chat := `{"model":"sim-chat","messages":[{"role":"user","content":"How do rivers move?"}],"svc_parameters":{"enable_web_search":"on","enable_web_citations":true}`
	responses := `{"model":"sim-chat","input":"How do rivers move?","tools":[{"type":"web_search"}]`
	messages := `{"model":"sim-chat","max_tokens":99,"messages":[{"role":"user","content":"How do rivers move?"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]`
	for _, row := range []struct {
		name, path, body string
		headers          []string
		text             string
	}{
		{"chat", "/chat/completions", chat, nil, kept},
		{"chat by OpenAI's package", "/chat/completions", chat, package1, clean},
		{"responses by OpenAI's package", "/responses", responses, package1, clean},
		{"responses of the specification", "/responses", responses, nil, clean},
		{"messages", "/messages", messages, nil, clean},
	} {
		for _, stream := range []bool{false, true} {
			body := row.body + "}"
			if stream {
				body = row.body + `,"stream":true}`
			}
			status, _, answer, err := rig.Try(rig.Client, g.URL+row.path, key, body, row.headers...)
			text, notes := readCited(row.path, answer, stream)
			if err != nil || status != 200 || text != row.text || len(notes) != 3 {
				t.Errorf("%s, stream %t: %d (%v) %q %q\n%s", row.name, stream, status, err, text, notes, answer)
				continue
			}
			for i, url := range []string{"https://a.example/1", "https://a.example/1", "https://b.example/2"} {
				if note := gjson.Parse(notes[i]); note.Get("url").Str != url || note.Get("title").Str == "" {
					t.Errorf("%s, stream %t: %s", row.name, stream, notes[i])
				} else if row.path == "/messages" {
					if note.Get("type").Str != "web_search_result_location" {
						t.Errorf("%s, stream %t: %s", row.name, stream, notes[i])
					}
				} else if said := text[note.Get("start_index").Int():note.Get("end_index").Int()]; row.text == clean &&
					said != []string{"Rivers move", "Lakes stay.", "Lakes stay."}[i] || row.text == kept && !strings.HasPrefix(said, "^1") {
					t.Errorf("%s, stream %t: %q for %s", row.name, stream, said, notes[i])
				}
			}
			if row.path == "/responses" && strings.Contains(answer, `"action"`) &&
				!strings.Contains(answer, `"query":"How do rivers move?"`) {
				t.Errorf("%s, stream %t: the query of the search is missing: %s", row.name, stream, answer)
			}
		}
	}
	g.CLI("verify")
}

// readCited is the text of an answer, and its annotations or citations.
func readCited(path, answer string, stream bool) (text string, notes []string) {
	add := func(list gjson.Result, inner string) {
		list.ForEach(func(_, note gjson.Result) bool {
			if inner != "" {
				note = note.Get(inner)
			}
			notes = append(notes, note.Raw)
			return true
		})
	}
	whole := gjson.Parse(answer)
	switch {
	case !stream && path == "/chat/completions":
		add(whole.Get("choices.0.message.annotations"), "url_citation")
		return whole.Get("choices.0.message.content").Str, notes
	case !stream && path == "/responses":
		add(whole.Get(`output.#(type=="message").content.0.annotations`), "")
		return whole.Get(`output.#(type=="message").content.0.text`).Str, notes
	case !stream:
		whole.Get("content").ForEach(func(_, block gjson.Result) bool {
			text += block.Get("text").Str
			add(block.Get("citations"), "")
			return true
		})
		return text, notes
	}
	for line := range strings.Lines(answer) {
		event := gjson.Parse(strings.TrimPrefix(strings.TrimSpace(line), "data: "))
		switch {
		case path == "/chat/completions":
			text += event.Get("choices.0.delta.content").Str
			add(event.Get("choices.0.delta.annotations"), "url_citation")
		case event.Get("type").Str == "response.output_text.delta":
			text += event.Get("delta").Str
		case event.Get("type").Str == "response.completed":
			add(event.Get(`response.output.#(type=="message").content.0.annotations`), "")
		case event.Get("delta.type").Str == "text_delta":
			text += event.Get("delta.text").Str
		case event.Get("delta.type").Str == "citations_delta":
			add(gjson.Parse("["+event.Get("delta.citation").Raw+"]"), "")
		}
	}
	return text, notes
}
