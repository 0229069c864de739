package chat

import (
	"encoding/base64"
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

// carried are the published forms of answer content beside text: a message of a whole answer, which
// also is the delta of a stream.
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

// buyer is an account of a gateway before an upstream that answers bytes.
type buyer struct {
	*rig.Gateway
	upstream *rig.RawUpstream
	key      string
}

// startBuyer starts both; config has a verb for the upstream's address.
func startBuyer(t *testing.T, config string) *buyer {
	t.Helper()
	u := rig.StartRaw(t, nil)
	g := rig.StartGateway(t, fmt.Sprintf(config, u.URL))
	g.NewAccount("a", "10")
	return &buyer{g, u, g.Key("a")}
}

// asks posts a body, and returns the charge for the answer.
func (b *buyer) asks(path, body string) (status int, answer []byte, spent rig.Money) {
	before := b.Settled()["a"].Spent
	status, _, answer = b.Post(path, b.key, body)
	return status, answer, b.Settled()["a"].Spent - before
}

// says has the upstream answer all requests with a body; chunked leaves out its length.
func (b *buyer) says(kind, body string, chunked bool) {
	b.upstream.Answer(func(c net.Conn, _ string) {
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

// A model that draws was cut off after a part of its picture and charged its whole cap, though
// the upstream had reported a few tokens. Media are delivered unchanged and priced by the report.
func TestMediaInAnswersAreDeliveredAndPricedByTheReport(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, drawnConfig)
	for name, message := range carried() {
		for _, kind := range []string{"whole", "chunked", "stream"} {
			body, media, stream := wholeOf(message, ","+usageOf8), "application/json", "false"
			if kind == "stream" {
				body, media, stream = streamOf(message, ","+usageOf8), "text/event-stream", "true"
			}
			b.says(media, body, kind != "whole")
			status, answer, spent := b.asks("/chat/completions", rig.Ask("draws", "Draw", `,"stream":`+stream))
			if status != 200 || string(answer) != body {
				t.Errorf("%s, %s: %d, %d bytes of %d: %s", name, kind, status, len(answer), len(body),
					rig.Last(string(answer), 200))
			}
			if spent != 5*1000+80*2000 {
				t.Errorf("%s, %s: charged %s", name, kind, spent)
			}
		}
	}
}

// Without reported usage, a picture is priced by its size; text in a picture's place is priced as
// text.
func TestMediaInAnswersHaveAPrice(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, drawnConfig)
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
			if b.says("application/json", wholeOf(c.message, c.usage), false); stream {
				b.says("text/event-stream", streamOf(c.message, c.usage), true)
			}
			_, _, spent := b.asks("/chat/completions", rig.Ask("draws", "Draw", fmt.Sprintf(`,"stream":%t`, stream)))
			if tokens := spent / 2000; tokens < c.least || tokens > c.most+20 {
				t.Errorf("%s, stream %t: charged %d tokens", c.name, stream, tokens)
			}
		}
	}
}

// An event without an end was relayed for ever: content other than text had no bound.
func TestAnEventWithoutAnEndIsBrokenOff(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, drawnConfig)
	for name, line := range map[string]string{"a comment": ": ", "a picture": `data: {"id":"1","choices":[{"index":0,` +
		`"delta":{"images":[{"image_url":{"url":"data:image/png;base64,`} {
		b.upstream.Answer(func(c net.Conn, _ string) {
			_, _ = io.WriteString(c, rig.SSEChunked+rig.SSEChunk(rig.GoodChunk)+rig.SSEChunk(line))
			block := rig.SSEChunk(strings.Repeat("A", 1<<20))
			for range 256 {
				if _, err := io.WriteString(c, block); err != nil {
					return
				}
			}
		})
		before := b.Settled()["a"].Spent
		res := b.Open("POST", "/chat/completions", b.key, rig.Ask("draws", "Draw", `,"stream":true`))
		n, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err == nil || n > 80<<20 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if spent := b.Settled()["a"].Spent - before; spent > 100*2000 {
			t.Errorf("%s: charged %s", name, spent)
		}
	}
}

// A stream whose [DONE] has arrived is paid, also when farebox is killed before the
// upstream ends its answer.
func TestAStreamThatWasDoneIsPaidAfterAKill(t *testing.T) {
	t.Parallel()
	b := startBuyer(t, drawnConfig)
	for _, usage := range []string{"," + usageOf8, ""} {
		b.upstream.Answer(func(c net.Conn, _ string) {
			_, _ = io.WriteString(c, rig.SSEChunked+rig.SSEChunk(streamOf(`{"content":"four words of text"}`, usage)))
			_, _ = io.ReadAll(c)
		})
		before := b.Settled()["a"].Spent
		res := b.Open("POST", "/chat/completions", b.key, rig.Ask("draws", "Draw", `,"stream":true`))
		var text []byte
		for piece := make([]byte, 4096); !strings.Contains(string(text), "[DONE]"); {
			n, err := res.Body.Read(piece)
			if text = append(text, piece[:n]...); err != nil {
				t.Fatalf("%v after %s", err, text)
			}
		}
		b.Kill()
		_ = res.Body.Close()
		b.Start()
		spent := b.Settled()["a"].Spent - before
		if usage != "" && spent != 5*1000+80*2000 || spent < 4*2000 {
			t.Errorf("usage %q: charged %s", usage, spent)
		}
	}
}
