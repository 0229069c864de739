package openai

import (
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
)

// An event that is too large to hold goes out as it comes, and its usage,
// text and end still count.
func TestEventTooLargeToHoldIsReadAsItGoesBy(t *testing.T) {
	text := strings.Repeat("the ", 40<<10)
	large := strings.Replace(chunk(text), `"finish_reason":null}]`, `"finish_reason":"stop"}],"usage":`+plainUsage, 1)
	for name, input := range map[string]string{
		"LF":    roleChunk + large + done,
		"CR LF": strings.ReplaceAll(roleChunk+large+done, "\n", "\r\n"),
		"CR":    strings.ReplaceAll(roleChunk+large+done, "\n", "\r"),
	} {
		for _, piece := range []int{1000, 4096, 65537} {
			var cuts []int
			for at := piece; at < len(input); at += piece {
				cuts = append(cuts, at)
			}
			sc := streamCase{input: input, complete: true}
			got := sc.run(t, cuts...)
			if got.out != input || !got.done || !got.boundary || got.usage.Prompt != 11 || !got.usage.Seen {
				t.Errorf("%s in pieces of %d: %d bytes became %d, %+v", name, piece, len(input), len(got.out),
					got.usage)
			}
			sc.upstream = "m2"
			sc.input = strings.Replace(input, `"model":"m"`, `"model":"m2"`, 1)
			if got := sc.run(t, cuts...); got.out != input {
				t.Errorf("%s in pieces of %d: the model's name was not put right", name, piece)
			}
		}
	}
	c := chatOf(t, prompt)
	s := Dialect{}.Stream(c, targetOf(c.Model, "m", config.Quirks{}))
	defer s.Release()
	s.Pass([]byte(large[:70<<10]))
	if s.AtBoundary() {
		t.Error("an event may not begin inside another one")
	}
	if n := s.Produced(); n < 17000 || n > 19000 {
		t.Errorf("%d tokens of about 17900", n)
	}
}

// A 100 MB answer must not need 100 MB.
func TestLargeAnswerIsMeteredInFlatMemory(t *testing.T) {
	c := chatOf(t, prompt)
	target := targetOf(c.Model, "m", config.Quirks{})
	f := func(usage string, want dialect.Usage) {
		t.Helper()
		head, tail, _ := strings.Cut(answer("#", usage), "#")
		m := NewBodyMeter(c, target)
		defer m.Release()
		block := []byte(strings.Repeat(" the", 4096))
		m.Pass([]byte(head))
		for range 1600 { // 25 MB
			m.Pass(block)
		}
		m.Pass([]byte(tail))
		if n := m.Produced(); n < 6_500_000 || n > 6_600_000 {
			t.Errorf("%d tokens", n)
		}
		if m.Finish(true); m.Usage() != want || !m.Done() {
			t.Errorf("%+v, want %+v", m.Usage(), want)
		}
		if bm := m.(*BodyMeter); cap(bm.out)+cap(bm.captured) > 64<<10 {
			t.Error("the meter has grown with the answer")
		}
	}
	f(strings.Replace(`,"usage":`+plainUsage, `"completion_tokens":7`, `"completion_tokens":6500000`, 1),
		dialect.Usage{Prompt: 11, Cached: 5, Completion: 6500000, Reasoning: 3, Seen: true})
	f(`,"usage":`+plainUsage, dialect.Usage{Prompt: 11, Cached: 5, Completion: 4096 * 1600, Reasoning: 3, Seen: true,
		Estimated: true})
	f("", dialect.Usage{Prompt: promptTokens, Completion: 4096 * 1600, Estimated: true})
}

// A broken answer is charged for the received text, even when its usage had been reported
// as zero so far.
func TestBrokenAnswersAreChargedForTheirTokens(t *testing.T) {
	f := func(input string, want dialect.Usage) {
		t.Helper()
		sc := streamCase{input: input}
		if got := sc.run(t); got.usage != want {
			t.Errorf("%+v, want %+v", got.usage, want)
		}
	}
	two := dialect.Usage{Prompt: promptTokens, Completion: 2, Estimated: true}
	f(roleChunk, dialect.Usage{Prompt: promptTokens, Estimated: true})
	f(roleChunk+chunk("the")+chunk(" small"), two)
	f(roleChunk+chunk("the")+chunk(" small")+chunk(" river")[:100], two)
	zero := func(s string) string {
		return strings.ReplaceAll(s, `}]}`, `}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`)
	}
	seen := two
	seen.Seen = true
	f(zero(roleChunk+chunk("the")+chunk(" small")), seen)
	f(strings.ReplaceAll(roleChunk+chunk("the")+chunk(" small"), `}]}`,
		`}],"usage":{"prompt_tokens":11,"completion_tokens":30}}`),
		dialect.Usage{Prompt: 11, Completion: 30, Seen: true})
	// After the finish_reason the usage is that of the whole answer, [DONE] or not.
	f(roleChunk+chunk("the small river moves")+finishChunk+strings.Replace(usageChunk,
		`"completion_tokens":7,"total_tokens":18`, `"completion_tokens":3,"total_tokens":14`, 1),
		dialect.Usage{Prompt: 11, Cached: 5, Completion: 3, Reasoning: 3, Seen: true})

	c := chatOf(t, prompt)
	m := NewBodyMeter(c, targetOf(c.Model, "m", config.Quirks{}))
	defer m.Release()
	if run(m, answer("the small", "")[:170], false); m.Done() || m.Usage().Completion == 0 {
		t.Errorf("%+v", m.Usage())
	}
}

// Upstreams that send one token a delta are counted to the token, however long
// they talk: the rest of a long answer is counted in deltas.
func TestCountIsExactForOneTokenADelta(t *testing.T) {
	words := []string{" the", " a", " small", " river", " moves", " past", " old", " stone"}
	for _, n := range []int{1, 7, 300, 5000} {
		var input strings.Builder
		input.WriteString(roleChunk)
		for i := range n {
			input.WriteString(chunk(words[i%8]))
		}
		sc := streamCase{input: input.String()}
		got := sc.run(t)
		// the event with the role, too, extends a hold
		if want := int64(n); got.usage.Completion != want || got.produced != want+1 {
			t.Errorf("%d tokens: counted %d, produced %d", n, got.usage.Completion, got.produced)
		}
	}
}
