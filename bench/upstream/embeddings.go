package upstream

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"

	"github.com/tidwall/gjson"
)

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
