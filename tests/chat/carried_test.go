package chat

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"farebox/tests/rig"
)

// drawnConfig has a model whose default cap is 16,384 tokens.
const drawnConfig = `
billing: { minimum_balance: 0 }
upstreams:
  - { name: only, base_url: %q }
models:
  - id: draws
    tier: unlimited
    context_tokens: 200000
    max_completion_tokens: 32768
    price: { input: 1, output: 2 }
    targets: [{ upstream: only }]
`

// drawn is base64 of about so many bytes that begins as a picture does.
func drawn(size int) string {
	b := []byte("\x89PNG\r\n\x1a\n")
	for i := len(b); i < size; i++ {
		b = append(b, byte(i*i>>3))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// carried are the published forms of what an answer has beside text: a message of a
// whole answer, which also is the delta of a stream.
func carried() map[string]string {
	picture, part := drawn(800<<10), drawn(20<<10)
	url := "data:image/png;base64," + picture
	return map[string]string{
		"OpenRouter, a picture": `{"role":"assistant","content":"Here it is.","refusal":null,"reasoning":null,` +
			`"images":[{"type":"image_url","image_url":{"url":"` + url + `"},"index":0}]}`,
		"OpenRouter, encrypted thoughts": `{"role":"assistant","content":"Here.","reasoning_details":[` +
			`{"type":"reasoning.encrypted","data":"` + picture + `","format":"google-gemini-v1","index":0}]}`,
		"Gemini behind its OpenAI door": `{"role":"assistant","content":"Here.","extra_content":{"google":` +
			`{"thought_signature":"` + picture + `"}}}`,
		"farebox, pictures": `{"role":"assistant","content":"Here.","images":[{"type":"image_url","image_url":{"url":"` +
			url + `"}},{"type":"image_url","image_url":{"url":"` + url + `"}}],"thought_signature":"` + part + `"}`,
		"OpenAI, sound": `{"role":"assistant","content":null,"refusal":null,"audio":{"id":"audio_1","data":"` + picture +
			`","expires_at":1800000000,"transcript":"Here it is."},"annotations":[]}`,
		"content in parts": `{"role":"assistant","content":[{"type":"text","text":"Here."},{"type":"image_url",` +
			`"image_url":{"url":"` + url + `"}}]}`,
		"a picture in the text": `{"role":"assistant","content":"Here: ![it](` + url + `)"}`,
		"a video and a file": `{"role":"assistant","content":"Here.","video":{"url":"https://files.example/a.mp4?s=` +
			part[:1500] + `"},"file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + picture + `"}}`,
		"a small picture": `{"role":"assistant","content":"Here.","images":[{"type":"image_url","image_url":{"url":` +
			`"data:image/webp;base64,` + part + `"}}]}`,
		"citations": `{"role":"assistant","content":"Here.","annotations":[{"type":"url_citation","url_citation":` +
			`{"url":"https://a.example","title":"A","content":"` + strings.Repeat("what a page says ", 3000) + `"}}]}`,
		"base85 in an unknown member": `{"role":"assistant","content":"Here.","b85":"` +
			strings.Repeat("<~9jqo^BlbD-BleB1DJ+*+F(f,q~>", 10) + `"}`,
	}
}

const usageOf8 = `"usage":{"prompt_tokens":5,"completion_tokens":80,"total_tokens":85}`

// wholeOf and streamOf are an answer with a message.
func wholeOf(message, more string) string {
	return `{"id":"gen-1","object":"chat.completion","created":1700000000,"model":"draws","choices":[{"index":0,` +
		`"message":` + message + `,"finish_reason":"stop"}]` + more + `}`
}

func streamOf(delta, usage string) string {
	head := `data: {"id":"gen-1","object":"chat.completion.chunk","created":1700000000,"model":"draws","choices":[`
	return head + `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n" +
		head + `{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n" +
		head + `{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + head + `]` + usage + "}\n\ndata: [DONE]\n\n"
}

// says answers all requests with a body; chunked says that its length is not told.
func says(u *rig.RawUpstream, kind, body string, chunked bool) {
	u.Answer(func(c net.Conn, _ string) {
		if !chunked {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
				kind, len(body), body)
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", kind)
		for at := 0; at < len(body); at += 10_007 {
			piece := body[at:min(len(body), at+10_007)]
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(piece), piece); err != nil {
				return
			}
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
}

// A model that draws was cut off after a part of its picture and charged its whole cap,
// though the upstream had reported a few tokens. What is not text is delivered as it came
// and priced by the report.
func TestWhatIsNotTextIsDeliveredAndPricedByTheReport(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(drawnConfig, u.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	for name, message := range carried() {
		for _, kind := range []string{"whole", "chunked", "stream"} {
			body, media, stream := wholeOf(message, ","+usageOf8), "application/json", "false"
			if kind == "stream" {
				body, media, stream = streamOf(message, ","+usageOf8), "text/event-stream", "true"
			}
			says(u, media, body, kind != "whole")
			before := g.Settled()["a"].Spent
			status, _, answer := g.Post("/chat/completions", key, rig.Ask("draws", "Draw", `,"stream":`+stream))
			if status != 200 || string(answer) != body {
				t.Errorf("%s, %s: %d, %d bytes of %d: %s", name, kind, status, len(answer), len(body),
					rig.Last(string(answer), 200))
			}
			if spent := g.Settled()["a"].Spent - before; spent != 5*1000+80*2000 {
				t.Errorf("%s, %s: charged %s", name, kind, spent)
			}
		}
	}
}

// Where no usage is told, a picture is priced by its size; text that hides in the place
// of one is text.
func TestWhatIsNotTextHasAPrice(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(drawnConfig, u.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	message := func(url string) string {
		return `{"role":"assistant","content":"Here.","images":[{"type":"image_url","image_url":{"url":"` + url + `"}}]}`
	}
	novel := strings.Repeat("The small river moves past old stone houses. ", 200) // 1,800 tokens
	for _, c := range []struct {
		name, message, usage string
		least, most          rig.Money // tokens
	}{
		{"a picture without a usage", message("data:image/png;base64," + drawn(768<<10)), "", 1000, 1100},
		{"a picture beside nothing", message("data:image/png;base64," + drawn(768<<10)),
			`,"usage":{"prompt_tokens":5,"completion_tokens":0}`, 1000, 1100},
		{"a novel as a picture", message(novel), "," + usageOf8, 1700, 2000},
		{"a novel in a data URL", message("data:image/png;base64," + novel), "," + usageOf8, 1700, 2000},
		{"a novel as a name", strings.Replace(message("https://a.example"), "image_url", novel, 1), "," + usageOf8, 1700, 2000},
	} {
		for _, stream := range []bool{false, true} {
			if says(u, "application/json", wholeOf(c.message, c.usage), false); stream {
				says(u, "text/event-stream", streamOf(c.message, c.usage), true)
			}
			before := g.Settled()["a"].Spent
			g.Post("/chat/completions", key, rig.Ask("draws", "Draw", fmt.Sprintf(`,"stream":%t`, stream)))
			tokens := (g.Settled()["a"].Spent - before) / 2000
			if tokens < c.least || tokens > c.most+20 {
				t.Errorf("%s, stream %t: charged %d tokens", c.name, stream, tokens)
			}
		}
	}
}

// A whole answer far beyond its cap was broken off in the middle of a word, and charged.
// It comes whole where its length is known, else it ends as the model should have ended it.
func TestAWholeAnswerBeyondItsCapIsWhole(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(drawnConfig, u.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	for name, text := range map[string]string{
		"plain":   strings.Repeat("The small river moves past old stone houses. ", 4000),
		"escaped": strings.Repeat(`She said \"no\".\n\u0440\u0435\u043a\u0430 `, 4000),
		"wide":    strings.Repeat("老石屋旁的小河", 6000),
	} {
		for _, usage := range []string{"", "," + usageOf8} {
			for _, chunked := range []bool{false, true} {
				body := wholeOf(`{"role":"assistant","content":"`+text+`"}`, usage)
				says(u, "application/json", body, chunked)
				before := g.Settled()["a"].Spent
				status, _, answer := g.Post("/chat/completions", key, rig.Ask("draws", "Talk", `,"max_completion_tokens":3000`))
				var got struct {
					Choices []struct {
						Message struct{ Content string }
						Finish  string `json:"finish_reason"`
					}
					Usage struct {
						Completion int64 `json:"completion_tokens"`
					}
				}
				if err := json.Unmarshal(answer, &got); err != nil || status != 200 || len(got.Choices) != 1 {
					t.Errorf("%s, chunked %t: %d, %v: %d bytes, %s", name, chunked, status, err, len(answer),
						rig.Last(string(answer), 200))
					continue
				}
				cut := len(answer) < len(body)
				if cut && (got.Choices[0].Finish != "length" || got.Usage.Completion != 3000 || !chunked) {
					t.Errorf("%s, chunked %t: ends %s", name, chunked, rig.Last(string(answer), 200))
				}
				if chunked != cut {
					t.Errorf("%s, chunked %t: %d bytes of %d", name, chunked, len(answer), len(body))
				}
				if spent := g.Settled()["a"].Spent - before; spent < 3000*2000 || spent > 3000*2000+100*1000 {
					t.Errorf("%s, chunked %t: charged %s", name, chunked, spent)
				}
			}
		}
	}
}

// An event without an end was passed on for ever: what is not text had no bound.
func TestAnEventWithoutAnEndIsBrokenOff(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(drawnConfig, u.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	for name, line := range map[string]string{"a comment": ": ", "a picture": `data: {"id":"1","choices":[{"index":0,` +
		`"delta":{"images":[{"image_url":{"url":"data:image/png;base64,`} {
		u.Answer(func(c net.Conn, _ string) {
			_, _ = io.WriteString(c, rig.SSEChunked+rig.SSEChunk(rig.GoodChunk)+rig.SSEChunk(line))
			block := rig.SSEChunk(strings.Repeat("A", 1<<20))
			for range 256 {
				if _, err := io.WriteString(c, block); err != nil {
					return
				}
			}
		})
		before := g.Settled()["a"].Spent
		res := g.Open("POST", "/chat/completions", key, rig.Ask("draws", "Draw", `,"stream":true`))
		n, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err == nil || n > 80<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if spent := g.Settled()["a"].Spent - before; spent > 100*2000 {
			t.Errorf("%s: charged %s", name, spent)
		}
	}
}

// A stream whose [DONE] has arrived is paid, also when farebox is killed before the
// upstream ends its answer.
func TestAStreamThatWasDoneIsPaidAfterAKill(t *testing.T) {
	t.Parallel()
	u := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(drawnConfig, u.URL))
	g.NewAccount("a", "10")
	key := g.Key("a")
	for _, usage := range []string{"," + usageOf8, ""} {
		u.Answer(func(c net.Conn, _ string) {
			_, _ = io.WriteString(c, rig.SSEChunked+rig.SSEChunk(streamOf(`{"content":"four words of text"}`, usage)))
			_, _ = io.ReadAll(c)
		})
		before := g.Settled()["a"].Spent
		res := g.Open("POST", "/chat/completions", key, rig.Ask("draws", "Draw", `,"stream":true`))
		var text []byte
		for piece := make([]byte, 4096); !strings.Contains(string(text), "[DONE]"); {
			n, err := res.Body.Read(piece)
			if text = append(text, piece[:n]...); err != nil {
				t.Fatalf("%v after %s", err, text)
			}
		}
		g.Kill()
		_ = res.Body.Close()
		g.Start()
		spent := g.Settled()["a"].Spent - before
		if usage != "" && spent != 5*1000+80*2000 || spent < 4*2000 {
			t.Errorf("usage %q: charged %s", usage, spent)
		}
	}
}
