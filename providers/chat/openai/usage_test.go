package openai

import (
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
)

// Every way of reporting usage that was met in the field, in a stream. A wrong
// reading is a wrong bill.
func TestUsageOfStreams(t *testing.T) {
	seen := func(u dialect.Usage) dialect.Usage {
		u.Seen = true
		return u
	}
	tail := func(member string) string { // of every plain chunk
		return strings.ReplaceAll(roleChunk+chunk("the")+chunk(" small"), `}]}`, `}],`+member+`}`)
	}
	finish := func(member string) string { return strings.Replace(finishChunk, `}]}`, `}],`+member+`}`, 1) }
	f := func(name, stream string, want dialect.Usage) {
		t.Helper()
		c := chatOf(t, prompt)
		s := Dialect{}.Stream(c, targetOf(c.Model, "m", config.Quirks{}))
		defer s.Release()
		sent := stream
		if !want.Seen {
			// The upstream reports no usage, so the client gets the charged one.
			sent = strings.Replace(stream, done, usageEvent(want)+done, 1)
		}
		if out := run(s, stream, true); out != sent {
			t.Errorf("%s: the bytes changed:\n%s", name, out)
		}
		if got := s.Usage(); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	plain := seen(dialect.Usage{Prompt: 11, Cached: 5, Completion: 7, Reasoning: 3})
	body := roleChunk + chunk("the") + chunk(" small") + finishChunk
	f("chunk without choices", body+usageChunk+done, plain)
	f("null in every chunk before", tail(`"usage":null`)+finishChunk+usageChunk+done, plain)
	f("spaces", body+`data:{"choices" : [] , "usage"  :  {"prompt_tokens" : 11 , "completion_tokens":7}}`+"\n\n"+done,
		seen(dialect.Usage{Prompt: 11, Completion: 7}))
	f("zeros until the end", tail(`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`)+finishChunk+
		usageChunk+done, plain)
	f("running counts", tail(`"usage":{"prompt_tokens":11,"completion_tokens":1}`)+finish(`"usage":`+plainUsage)+done,
		plain)
	f("in the finish chunk", roleChunk+chunk("the")+finish(`"usage":`+plainUsage)+done, plain)
	f("in a chunk with choices and an empty delta", body+strings.Replace(finishChunk, `}]}`,
		`}],"usage":`+plainUsage+`}`, 1)+done, plain)
	f("null after the real one", body+usageChunk+strings.Replace(usageChunk, plainUsage, "null", 1)+done, plain)
	f("in the choice (Moonshot)", roleChunk+chunk("the")+strings.Replace(finishChunk, `"finish_reason":"stop"`,
		`"finish_reason":"stop","usage":`+plainUsage, 1)+done, plain)
	f("null at the top, real in the choice", roleChunk+chunk("the")+strings.Replace(finish(`"usage":null`),
		`"finish_reason":"stop"`, `"finish_reason":"stop","usage":`+plainUsage, 1)+done, plain)
	f("x_groq", roleChunk+chunk("the")+finish(`"x_groq":{"id":"req_1","usage":`+plainUsage+`}`)+done, plain)
	f("top-level cached_tokens",
		body+`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"cached_tokens":5,"reasoning_tokens":3}}`+"\n\n"+done, plain)
	f("prompt_cache_hit_tokens (DeepSeek)",
		body+`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_cache_hit_tokens":5,"prompt_cache_miss_tokens":6,"completion_tokens_details":{"reasoning_tokens":3}}}`+"\n\n"+done, plain)
	f("cache writes", body+`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":5,"cache_write_tokens":4}}}`+"\n\n"+done, seen(dialect.Usage{Prompt: 11, Cached: 5, CacheWrite: 4, Completion: 7}))
	f("cache writes of a proxy before Anthropic",
		body+`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"cache_creation_input_tokens":4,"cache_read_input_tokens":5}}`+"\n\n"+done, seen(dialect.Usage{Prompt: 11, Cached: 5, CacheWrite: 4, Completion: 7}))
	f("parts above their wholes",
		body+`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":50,"cache_write_tokens":4},"completion_tokens_details":{"reasoning_tokens":9}}}`+"\n\n"+done, seen(dialect.Usage{Prompt: 11, Cached: 11, Completion: 7, Reasoning: 7}))
	counted := seen(dialect.Usage{Prompt: promptTokens, Completion: 2, Estimated: true})
	f("zero", body+`data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`+"\n\n"+
		done, counted)
	f("negative", body+`data: {"choices":[],"usage":{"prompt_tokens":-11,"completion_tokens":-7}}`+"\n\n"+done, counted)
	f("thoughts in the total alone (Google)",
		body+`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":105}}`+"\n\n"+done,
		seen(dialect.Usage{Prompt: 9, Completion: 96}))
	f("a total alone", body+`data: {"choices":[],"usage":{"total_tokens":105}}`+"\n\n"+done,
		seen(dialect.Usage{Prompt: promptTokens, Completion: 105 - promptTokens, Estimated: true}))
	f("huge", body+`data: {"choices":[],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":1e300}}`+
		"\n\n"+done, seen(dialect.Usage{Prompt: 1 << 40, Completion: 1 << 40}))
	f("fractions and text", body+
		`data: {"choices":[],"usage":{"prompt_tokens":11.0,"completion_tokens":7.5,"total_tokens":"18"}}`+"\n\n"+done,
		seen(dialect.Usage{Prompt: 11, Completion: 7}))
	f("reasoning beside the completion (xAI)",
		body+`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":4,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":3}}}`+"\n\n"+done, seen(dialect.Usage{Prompt: 11, Completion: 7, Reasoning: 3}))
	f("named in the text only", roleChunk+chunk(`\"usage\":{\"completion_tokens\":900}`)+finishChunk+usageChunk+done,
		plain)
	f("twice in one event", body+
		`data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7},"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\n"+done, seen(dialect.Usage{Prompt: 11, Completion: 7}))
	f("data of several lines",
		body+"data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":11,\ndata: \"completion_tokens\":7}}\n\n"+done,
		seen(dialect.Usage{Prompt: 11, Completion: 7}))

	// None at all: counted.
	f("none", body+done, dialect.Usage{Prompt: promptTokens, Completion: 2, Estimated: true})
	f("null only", tail(`"usage":null`)+finishChunk+done, dialect.Usage{Prompt: promptTokens, Completion: 2,
		Estimated: true})
}

// The same for whole answers, read at once and read as they go by.
func TestUsageOfAnswers(t *testing.T) {
	f := func(name, body string, want dialect.Usage) {
		t.Helper()
		c := chatOf(t, prompt)
		target := targetOf(c.Model, "m", config.Quirks{})
		var s dialect.Scratch
		out, got, err := Dialect{}.Answer([]byte(body), c, target, &s)
		sent := body
		if !want.Seen {
			usage := string(dialect.AppendUsage(nil, &want))
			if sent = strings.Replace(body, `"usage":null`, `"usage":`+usage, 1); sent == body {
				sent = body[:len(body)-1] + `,"usage":` + usage + "}"
			}
		}
		if err != nil || string(out) != sent {
			t.Errorf("%s: %v %s", name, err, out)
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		for cut := range body {
			m := NewBodyMeter(c, target)
			if out := run(m, body, true, cut); out != body || m.Usage() != want || !m.Done() {
				t.Errorf("%s, cut at %d: %+v, want %+v; done %v", name, cut, m.Usage(), want, m.Done())
				break
			}
			m.Release()
		}
	}
	plain := dialect.Usage{Prompt: 11, Cached: 5, Completion: 7, Reasoning: 3, Seen: true}
	f("plain", answer("the small", `,"usage":`+plainUsage), plain)
	f("before the choices", strings.Replace(answer("the small", ""), `"choices"`, `"usage":`+plainUsage+`,"choices"`,
		1), plain)
	f("in the choice", strings.Replace(answer("the small", ""), `"finish_reason"`,
		`"usage":`+plainUsage+`,"finish_reason"`, 1), plain)
	f("x_groq", answer("the small", `,"x_groq":{"usage":`+plainUsage+`}`), plain)
	f("elsewhere", answer("the small", `,"usage":`+plainUsage+`,"extra":{"usage":{"prompt_tokens":1}}`), plain)
	f("zero", answer("the small", `,"usage":{"prompt_tokens":0,"completion_tokens":0}`),
		dialect.Usage{Prompt: promptTokens, Completion: 2, Seen: true, Estimated: true})
	f("none", answer("the small", ""), dialect.Usage{Prompt: promptTokens, Completion: 2, Estimated: true})
	f("null", answer("the small", `,"usage":null`), dialect.Usage{Prompt: promptTokens, Completion: 2, Estimated: true})
	f("none, escapes", answer(`the\u0020small \"river\"\\`, ""),
		dialect.Usage{Prompt: promptTokens, Completion: dialect.CountTokens("", []byte(`the small "river"\`)),
			Estimated: true})
	tools := strings.Replace(answer("", ""), `"refusal":null`,
		`"reasoning_content":"the small","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}},{"id":"d","type":"function","function":{"name":"go","arguments":"{}"}}]`, 1)
	count := func(texts ...string) (n int64) {
		for _, text := range texts {
			n += dialect.CountTokens("", []byte(text))
		}
		return n
	}
	f("none, reasoning and tools", tools, dialect.Usage{Prompt: promptTokens,
		Completion: count("the small", "look", `{"at":1}`, "go", "{}"), Reasoning: 2, Estimated: true})
}

func TestAnswersThatAreNoneAreRefused(t *testing.T) {
	c := chatOf(t, prompt)
	target := targetOf(c.Model, "m", config.Quirks{})
	var s dialect.Scratch
	for _, body := range []string{``, `[]`, `<html>`, `{"id":`, answer("x", "") + `{}`,
		`{"error":{"message":"boom at 10.0.0.1"}}`} {
		if out, _, err := (Dialect{}).Answer([]byte(body), c, target, &s); err == nil {
			t.Errorf("%q became %q", body, out)
		}
	}
	// Two decoders could differ on these, but they are the upstream's to the client.
	if out, u, err := (Dialect{}).Answer([]byte(answer("x", `,"usage":`+plainUsage+`,"usage":null`)), c, target,
		&s); err != nil || u.Prompt != 11 || len(out) == 0 {
		t.Errorf("%v %+v", err, u)
	}
}

func TestEmbeddingsAreChargedByTheirInput(t *testing.T) {
	c := embedOf(t, `{"model":"m","input":["the small","river \u0041"]}`)
	target := targetOf(c.Model, "m", config.Quirks{})
	var s dialect.Scratch
	f := func(body string, want dialect.Usage) {
		t.Helper()
		if _, u, err := (Dialect{}).Answer([]byte(body), c, target, &s); err != nil || u != want {
			t.Errorf("%v %+v, want %+v", err, u, want)
		}
		m := NewBodyMeter(c, target)
		defer m.Release()
		if run(m, body, true); m.Usage() != want {
			t.Errorf("large: %+v, want %+v", m.Usage(), want)
		}
	}
	vector := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3]}],"model":"m"`
	f(vector+`,"usage":{"prompt_tokens":9,"total_tokens":9}}`, dialect.Usage{Prompt: 9, Seen: true})
	f(vector+`,"usage":{"total_tokens":9}}`, dialect.Usage{Prompt: 9, Seen: true})
	f(vector+`}`, dialect.Usage{Prompt: 4, Estimated: true})
}
