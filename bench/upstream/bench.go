package upstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Models named bench-… take the measured path: no tokenizing, no JSON library,
// a prepared answer and fixed usage, so that the simulated upstream is never
// the bottleneck of a comparison. Their scenario is from the model suffix
// (`bench-sse@gap_ms=20,tokens=100`) and from the table of names below, for
// gateways that take only plain model names.
const (
	benchPrompt     = 100
	benchCompletion = 150
	benchEvents     = 100
	benchLook       = 512 // bytes of a body searched before it is parsed as a whole
)

var benchScenarios = map[string]string{
	"bench-sse-paced": "gap_ms=20 tokens=250",
	"bench-sse-burst": "gap_ms=5 events_per_write=8 tokens=4000",
	"bench-sse-short": "tokens=10",
	"bench-sse-slow":  "gap_ms=500 tokens=1000000",
	"bench-hold":      "hold_after=10",
	"bench-wait":      "delay_ms=600000",
}

// BenchModels are the model names of the comparison.
func BenchModels() []string {
	return append([]string{"bench-1k", "bench-sse"}, keys(benchScenarios)...)
}

var (
	benchName   = []byte("bench-")
	benchMark   = []byte(`"model":"bench-`)
	streamMark  = []byte(`"stream":`)
	benchAnswer = makeBenchAnswer()
)

// makeBenchAnswer is a chat completion of about 1 KB with its head.
func makeBenchAnswer() []byte {
	body := []byte(`{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"bench-1k","choices":[{"index":0,"message":{"role":"assistant","content":"`)
	body = appendText(body, words{list: plainWords, n: benchCompletion})
	body = append(body, `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":150,"total_tokens":250,`+
		`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`...)
	head := "HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

// benchModel is the suffix-bearing model name when it is a bench- model.
func benchModel(body []byte) (string, bool) {
	at := bytes.Index(body[:min(len(body), benchLook)], benchMark)
	if at < 0 {
		if !bytes.Contains(body, benchName) {
			return "", false
		}
		// A gateway that re-encodes bodies may write the model last, or a space before it.
		model := gjson.GetBytes(body, "model").Str
		return model, strings.HasPrefix(model, string(benchName))
	}
	rest := body[at+len(`"model":"`):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return "", false
	}
	return string(rest[:end]), true
}

func benchStreams(body []byte) bool {
	at := bytes.Index(body[:min(len(body), benchLook)], streamMark)
	if at < 0 {
		return gjson.GetBytes(body, "stream").Bool()
	}
	rest := bytes.TrimLeft(body[at+len(streamMark):], " ")
	return len(rest) > 0 && rest[0] == 't'
}

func (c *conn) serveBench(model string) bool {
	sc := c.benchScenario(model)
	if benchStreams(c.req.body) {
		return c.benchStream(sc)
	}
	if sc.Delay > 0 && !c.benchDelay(sc) {
		return false
	}
	t := &c.srv.truth
	t.open.Add(1)
	defer t.open.Add(-1) // after the counters, so that WaitIdle means that all is booked
	if _, err := c.nc.Write(benchAnswer); err != nil {
		return false
	}
	t.bench.Add(1)
	t.benchTokens.Add(benchCompletion)
	return true
}

// benchDelay waits before the answer; false: the peer left meanwhile.
func (c *conn) benchDelay(sc *Scenario) bool {
	c.srv.truth.open.Add(1)
	x := &exchange{endpoint: "chat", sc: sc, opened: time.Now()}
	c.watch()
	err := c.pause(sc.Delay)
	c.unwatch()
	if err != nil {
		c.wire.begun = false
		c.settle(x, true)
		return false
	}
	c.srv.truth.open.Add(-1)
	return true
}

func (c *conn) benchScenario(model string) *Scenario {
	if sc, ok := c.srv.cache.Load(model); ok {
		return sc.(*Scenario)
	}
	name, keyed, _ := strings.Cut(model, "@")
	sc := c.srv.options.Scenario
	if sc.Apply(benchScenarios[name]) != nil || sc.Apply(keyed) != nil {
		sc = c.srv.options.Scenario // a misspelt key must not stop a measurement half way
	}
	kept := &sc
	c.srv.cache.Store(strings.Clone(model), kept)
	return kept
}

// The event carries the moment it was written, in 19 digits, so that a reader on the same
// machine knows how long it was under way. It is at the end, where some upstreams have a
// member that varies; the bytes before the text are the same in all events of an answer, as
// with real upstreams.
const (
	benchEvent = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench-sse",` +
		`"choices":[{"index":0,"delta":{"content":" the"},"logprobs":null,"finish_reason":null}],"sent_ns":"0000000000000000000"}` + "\n\n"
	benchSentMark = `"sent_ns":"`
	benchStart    = "HTTP/1.1 200 OK\r\nServer: simulated-upstream\r\nContent-Type: text/event-stream; " +
		"charset=utf-8\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)

var (
	benchChunk   = chunkOf(benchEvent)
	benchSentAt  = strings.Index(benchChunk, benchSentMark) + len(benchSentMark)
	benchSentLen = 19
)

func chunkOf(payload string) string {
	return strconv.FormatInt(int64(len(payload)), 16) + "\r\n" + payload + "\r\n"
}

// benchStream writes tokens= events, events_per_write= at a time, gap_ms=
// apart, then usage and [DONE].
func (c *conn) benchStream(sc *Scenario) bool {
	t := &c.srv.truth
	t.open.Add(1)
	c.watch()
	x := &exchange{endpoint: "chat_stream", sc: sc, opened: time.Now(), outcome: Complete}
	sent, err := c.benchEvents(sc)
	c.unwatch()
	x.tally.PromptTokens, x.tally.CompletionTokens = benchPrompt, int64(sent)
	c.wire.begun = sent > 0
	c.settle(x, err != nil)
	return err == nil
}

func (c *conn) benchEvents(sc *Scenario) (sent int, err error) {
	if err := c.pause(sc.Delay); err != nil {
		return 0, err
	}
	total, batch := sc.Tokens.Or(benchEvents), max(1, sc.EventsPerWrite)
	c.out = append(c.out[:0], benchStart...)
	due := time.Now()
	for sent < total {
		if sc.Gap > 0 && sent > 0 {
			due = due.Add(sc.Gap)
			if err := c.pause(time.Until(due)); err != nil {
				return sent, err
			}
		}
		n := min(batch, total-sent)
		for range n {
			from := len(c.out)
			c.out = append(c.out, benchChunk...)
			digits(c.out[from+benchSentAt:from+benchSentAt+benchSentLen], time.Now().UnixNano())
		}
		if err := c.write(c.out); err != nil {
			return sent, err
		}
		sent += n
		c.out = c.out[:0]
		if sc.HoldAfter.Set && sent >= sc.HoldAfter.N {
			return sent, c.waitGone()
		}
	}
	n := strconv.Itoa(sent)
	c.out = append(c.out, chunkOf(
		`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench-sse","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`+"\n\n")...)
	c.out = append(c.out, chunkOf(
		`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench-sse","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":`+n+
			`,"total_tokens":`+strconv.Itoa(sent+benchPrompt)+`}}`+"\n\n")...)
	c.out = append(c.out, chunkOf("data: [DONE]\n\n")...)
	c.out = append(c.out, "0\r\n\r\n"...)
	return sent, c.write(c.out)
}

// digits writes n right-aligned into dst, which holds zeros.
func digits(dst []byte, n int64) {
	for i := len(dst) - 1; i >= 0 && n > 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}
