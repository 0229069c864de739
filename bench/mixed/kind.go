package mixed

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"farebox/bench/upstream"
)

// kind is a sort of request with its expected bill.
type kind struct {
	name  string
	share float64
	make  func(r *rand.Rand, o *Options) request
}

// request is one request and its expected charge.
type request struct {
	path       string
	body       []byte
	stream     bool
	embedding  bool
	status     int   // the status the client must see; 0: any error status
	leaveAfter int   // content deltas after which the client leaves; 0: never
	cutAfter   int   // deltas after which the upstream cuts; 0: never
	usage      bool  // the upstream reports usage
	prompt     int64 // tokens to bill
	completion int64
}

const (
	shortest = 1
	longest  = 40
	words    = "river boat market bread letter house light north people money weather road"
)

// kinds is the mix; the shares add up to 1.
var kinds = []kind{
	{"plain", 0.30, func(r *rand.Rand, o *Options) request { return chat(r, o, false, "") }},
	{"plain_no_usage", 0.03, func(r *rand.Rand, o *Options) request { return chat(r, o, false, "usage=none") }},
	{"stream", 0.28, func(r *rand.Rand, o *Options) request { return chat(r, o, true, "") }},
	{"stream_split", 0.03, func(r *rand.Rand, o *Options) request {
		return chat(r, o, true, pick(r, "split=utf8 unicode=1", "split=crlf crlf=1", "chunk=11 comments=1",
			"events_per_write=7"))
	}},
	{"stream_no_usage", 0.08, func(r *rand.Rand, o *Options) request { return chat(r, o, true, "usage=none") }},
	{"stream_abort", 0.10, func(r *rand.Rand, o *Options) request {
		q := chat(r, o, true, "hold_after=%d")
		q.leaveAfter = int(q.completion)
		return q
	}},
	{"stream_cut", 0.05, func(r *rand.Rand, o *Options) request {
		q := chat(r, o, true, "cut=fin cut_after=%d")
		q.cutAfter = int(q.completion)
		return q
	}},
	{"status_500", 0.04, func(r *rand.Rand, o *Options) request { return refused(r, o, "status=500") }},
	{"status_429", 0.03, func(r *rand.Rand, o *Options) request { return refused(r, o, "status=429 retry_after=1") }},
	{"embedding", 0.06, embed},
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// prose is a prompt of some words; its tokens are counted, not guessed.
func prose(r *rand.Rand) string {
	list := strings.Fields(words)
	n := 1 + r.IntN(24)
	out := make([]string, n)
	for i := range out {
		out[i] = list[r.IntN(len(list))]
	}
	return strings.Join(out, " ")
}

// chat asks for a random number of tokens. %d in the scenario is replaced by the number
// that is delivered before the answer is broken off; the answer itself would be longer.
func chat(r *rand.Rand, o *Options, stream bool, scenario string) request {
	length := shortest + r.IntN(longest)
	q := request{path: "/chat/completions", stream: stream, status: 200, completion: int64(length),
		usage: !strings.Contains(scenario, "usage=none")}
	if strings.Contains(scenario, "%d") {
		scenario = fmt.Sprintf(scenario, length)
		length += 1 + r.IntN(longest)
		q.usage = false
	}
	text := prose(r)
	if scenario != "" {
		text += " [[sim " + scenario + "]]"
	}
	q.body = body(map[string]any{
		"model": o.Model, "stream": stream, "max_completion_tokens": length,
		"messages": []map[string]string{{"role": "user", "content": text}},
	})
	q.prompt = upstream.CountPrompt(q.body)
	return q
}

// refused is answered with an error by the upstream and must cost nothing.
func refused(r *rand.Rand, o *Options, scenario string) request {
	q := chat(r, o, r.IntN(2) == 0, scenario)
	q.status, q.prompt, q.completion, q.usage = 0, 0, 0, false
	return q
}

func embed(r *rand.Rand, o *Options) request {
	text := prose(r)
	return request{
		path: "/embeddings", embedding: true, status: 200, usage: true, prompt: upstream.CountText(text),
		body: body(map[string]any{"model": o.EmbeddingModel, "input": text, "dimensions": 8}),
	}
}

func body(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("mixed: a map of strings and numbers is always JSON: " + err.Error())
	}
	return b
}

// choose draws the kind of a request.
func choose(r *rand.Rand, embeddings bool) kind {
	for {
		at := r.Float64()
		for _, k := range kinds {
			if at < k.share {
				if k.name == "embedding" && !embeddings {
					break
				}
				return k
			}
			at -= k.share
		}
	}
}
