package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
)

// lateUsage is how long usage=late keeps the last chunk back.
const lateUsage = 200 * time.Millisecond

// chat answers POST /v1/chat/completions.
func (c *conn) chat(x *exchange, asked gjson.Result) (int, bool, error) {
	streamed := x.noteEndpoint("chat", asked)
	if f, bad := chatFault(c.req.body, asked); bad {
		return c.refuse(x, false, 400, f)
	}
	a := c.answerFor(asked, x)
	if streamed {
		keep, err := (&chatStream{eventStream: eventStream{c: c, x: x, a: a}}).run()
		return 200, keep, err
	}
	if err := c.think(x); err != nil {
		return 0, false, err
	}
	if x.sc.Endless {
		return c.sendEndlessText(x)
	}
	x.tally.CompletionTokens, x.tally.ReasoningTokens = a.completion()
	if x.sc.Big > 0 && len(a.choices) == 1 {
		keep, err := c.sendBig(x, a)
		return 200, keep, err
	}
	return c.sendBody(x, a.openai())
}

func chatFault(body []byte, asked gjson.Result) (failure, bool) {
	bad := func(text, param string) (failure, bool) {
		return failure{text: text, kind: "invalid_request_error", param: param}, true
	}
	switch {
	case !gjson.ValidBytes(body) || !asked.IsObject():
		return notJSON, true
	case asked.Get("model").Str == "":
		return bad("you must provide a model parameter", "model")
	case len(asked.Get("messages").Array()) == 0:
		return bad("Missing required parameter: 'messages'.", "messages")
	}
	if bytes.Contains(body, []byte(`"image_url"`)) {
		for i, m := range asked.Get("messages").Array() {
			if role := m.Get("role").Str; role != "user" && m.Get(`content.#(type=="image_url")`).Exists() {
				return bad(fmt.Sprintf("Invalid 'messages[%d]'. Image URLs are only allowed for messages with role 'user', "+
					"but this message with role '%s' contains an image URL.", i, role), "messages")
			}
		}
	}
	return failure{}, false
}

// openai is the whole answer as one JSON document.
func (a *answer) openai() []byte {
	out := a.openaiHead("chat.completion")
	for i := range a.choices {
		if i > 0 {
			out = append(out, ',')
		}
		ch := &a.choices[i]
		out = append(out, `{"index":`...)
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(out, `,"message":{"role":"assistant",`...)
		if len(ch.tools) > 0 {
			out = append(out, `"content":null`...)
		} else {
			out = a.sc.appendSaid(out, string(appendText(nil, ch.content)))
		}
		if ch.reasoning.Len() > 0 {
			out = append(out, `,"`+a.sc.thoughtMember()+`":`...)
			out = appendString(out, string(appendText(nil, ch.reasoning)))
		}
		if ch.draws > 0 {
			out = append(out, ","+ch.openaiPicture()...)
		}
		if len(ch.tools) > 0 {
			out = append(out, `,"tool_calls":[`...)
			for k, call := range ch.tools {
				if k > 0 {
					out = append(out, ',')
				}
				out = append(out, `{"id":"`+call.id+`","type":"function","function":{"name":`...)
				out = appendString(out, call.name)
				out = append(out, `,"arguments":`...)
				out = appendString(out, string(appendText(nil, call.args)))
				out = append(out, "}}"...)
			}
			out = append(out, ']')
		}
		if a.sc.SaidIn != "refusal" {
			out = append(out, `,"refusal":null`...)
		}
		out = append(out, `,"annotations":[]},"logprobs":`...)
		out = a.appendLogprobs(out, ch.content)
		out = append(out, `,"finish_reason":"`+ch.finish+`"}`...)
	}
	return append(a.openaiTail(out), '}')
}

func (a *answer) openaiHead(object string) []byte {
	out := []byte(`{"id":"chatcmpl-` + a.id + `","object":"` + object + `","created":`)
	out = strconv.AppendInt(out, a.created, 10)
	out = append(out, `,"model":`...)
	out = appendString(out, a.model)
	return append(out, `,"service_tier":"default","system_fingerprint":"fp_simulated","choices":[`...)
}

// openaiTail closes the choices and adds the usage the scenario reports.
func (a *answer) openaiTail(out []byte) []byte {
	out = append(out, ']')
	total, reasoning := a.completion()
	switch a.sc.Usage {
	case "none", "afterdone":
		return out
	case "null":
		return append(out, `,"usage":null`...)
	case "twice", "contradict":
		out = append(out, `,"usage":`...)
		out = a.appendUsage(out, total, reasoning)
		if a.sc.Usage == "contradict" {
			total, reasoning = 1, 0
		}
	}
	out = append(out, `,"usage":`...)
	return a.appendUsage(out, total, reasoning)
}

// appendUsage is the usage object for so many completion tokens, honest or
// not as the scenario says.
func (a *answer) appendUsage(dst []byte, completion, reasoning int64) []byte {
	u := a.usageOf(completion, reasoning)
	if a.sc.Usage == "totalonly" {
		return append(appendMembers(dst, member{`{"total_tokens":`, u.total}), '}')
	}
	dst = appendMembers(dst, member{`{"prompt_tokens":`, u.prompt}, member{`,"completion_tokens":`, u.completion},
		member{`,"total_tokens":`, u.total})
	switch a.sc.Usage {
	case "huge":
		return append(dst, '}')
	case "top":
		return append(appendMembers(dst, member{`,"cached_tokens":`, u.cached}, member{`,"reasoning_tokens":`, u.reasoning}), '}')
	}
	dst = appendMembers(dst, member{`,"prompt_tokens_details":{"cached_tokens":`, u.cached})
	if u.written > 0 {
		dst = appendMembers(dst, member{`,"cache_write_tokens":`, u.written})
	}
	dst = appendMembers(dst, member{`,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":`, u.reasoning})
	return append(dst, `,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

func (a *answer) appendLogprobs(dst []byte, t text) []byte {
	if !a.asked.Get("logprobs").Bool() || t.Len() == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for i := range t.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		token := t.At(i)
		dst = append(dst, `{"token":`...)
		dst = appendString(dst, token)
		dst = append(dst, `,"logprob":-0.25,"bytes":[`...)
		for k := range len(token) {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(token[k]), 10)
		}
		dst = append(dst, `],"top_logprobs":[]}`...)
	}
	return append(dst, `],"refusal":null}`...)
}

// sendBig sends an answer of any size from a small buffer.
func (c *conn) sendBig(x *exchange, a *answer) (bool, error) {
	content := a.choices[0].content
	size := int64(content.Len())*tokenBytes - 1
	head := append(a.openaiHead("chat.completion"), `{"index":0,"message":{"role":"assistant","content":"`...)
	tail := append([]byte(nil), `","refusal":null},"logprobs":null,"finish_reason":"`+a.choices[0].finish+`"}`...)
	tail = append(a.openaiTail(tail), '}')
	c.wire.begin(x.sc, 200, contentJSON, len(head)+int(size)+len(tail))
	stop := int64(content.Len())
	if x.sc.Cut != "" || x.sc.Truncate {
		x.outcome = Broken
		stop = int64(x.sc.CutAfter.Or(int(stop / 2)))
	}
	if err := c.wire.event(head, 0); err != nil {
		return false, err
	}
	const wordsPerWrite = 16 << 10
	block := make([]byte, 0, wordsPerWrite*tokenBytes)
	for sent := int64(0); sent < stop; {
		block = block[:0]
		for n := min(wordsPerWrite, stop-sent); n > 0; n-- {
			block = append(block, content.At(int(sent))...)
			sent++
		}
		if err := c.wire.event(block, 0); err != nil {
			return false, err
		}
	}
	if x.outcome == Broken {
		return false, c.wire.flush()
	}
	if err := c.wire.event(tail, 0); err != nil {
		return false, err
	}
	return c.wire.end()
}

const (
	usualDimensions = 1536
	maxDimensions   = 8192
)

// embeddings answers POST /v1/embeddings with unit vectors that depend only on
// the input.
func (c *conn) embeddings(x *exchange, asked gjson.Result) (int, bool, error) {
	x.endpoint = "embeddings"
	input := asked.Get("input")
	if !gjson.ValidBytes(c.req.body) || !input.Exists() {
		return c.refuse(x, false, 400, failure{text: "Missing required parameter: 'input'.",
			kind: "invalid_request_error", param: "input"})
	}
	dims := int(asked.Get("dimensions").Int())
	if dims <= 0 {
		dims = x.sc.Dims
	}
	if dims <= 0 {
		dims = usualDimensions
	}
	dims = min(dims, maxDimensions)
	asBase64 := asked.Get("encoding_format").Str == "base64"

	out := []byte(`{"object":"list","data":[`)
	tokens := embeddingTokens(input)
	for i, item := range embeddingItems(input) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"object":"embedding","index":`...)
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(out, `,"embedding":`...)
		out = appendVector(out, vector(item.Raw, dims), asBase64)
		out = append(out, '}')
	}
	out = append(out, `],"model":`...)
	out = appendString(out, asked.Get("model").Str)
	claimed := tokens
	switch x.sc.Usage {
	case "zero":
		claimed = 0
	case "negative":
		claimed = -tokens
	case "less":
		claimed = 1
	case "over":
		claimed = overClaim * tokens
	case "huge":
		claimed = 1<<63 - 1
	}
	if x.sc.Usage != "none" {
		n := strconv.FormatInt(claimed, 10)
		out = append(out, `,"usage":{"prompt_tokens":`+n+`,"total_tokens":`+n+`}`...)
	}
	x.tally.PromptTokens = tokens
	return c.sendBody(x, append(out, '}'))
}

// embeddingItems are the texts or token lists of an input.
func embeddingItems(input gjson.Result) []gjson.Result {
	if parts := input.Array(); input.IsArray() && len(parts) > 0 && parts[0].Type != gjson.Number {
		return parts
	}
	return []gjson.Result{input}
}

func embeddingTokens(input gjson.Result) (tokens int64) {
	for _, item := range embeddingItems(input) {
		if item.IsArray() {
			tokens += int64(len(item.Array()))
		} else {
			tokens += CountText(item.Str)
		}
	}
	return tokens
}

func vector(text string, dims int) []float32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	seed, sum := h.Sum64(), 0.0
	raw := make([]float64, dims)
	for i := range raw {
		raw[i] = float64(int64(mix(seed+uint64(i)))) / (1 << 63)
		sum += raw[i] * raw[i]
	}
	out := make([]float32, dims)
	for i := range raw {
		out[i] = float32(raw[i] / math.Sqrt(sum))
	}
	return out
}

func appendVector(dst []byte, v []float32, asBase64 bool) []byte {
	if asBase64 {
		raw := make([]byte, 0, 4*len(v))
		for _, f := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, raw)
		return append(dst, '"')
	}
	dst = append(dst, '[')
	for i, f := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(f), 'g', -1, 32)
	}
	return append(dst, ']')
}
