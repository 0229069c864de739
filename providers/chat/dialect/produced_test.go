package dialect

import (
	"strings"
	"testing"
)

func TestProducedTextIsCountedByItsParts(t *testing.T) {
	f := func(name string, want, wantReasoning int64, deltas ...any) {
		t.Helper()
		var p Produced
		defer p.Release()
		for i := 0; i < len(deltas); i += 2 {
			p.Add(deltas[i].(uint16), []byte(deltas[i+1].(string)))
		}
		tokens, reasoning, exact := p.Count("o200k_base")
		if tokens != want || reasoning != wantReasoning || !exact {
			t.Errorf("%s: %d tokens, %d of reasoning, exact %v; want %d and %d", name, tokens, reasoning, exact, want,
				wantReasoning)
		}
		if again, _, _ := p.Count("o200k_base"); again != tokens {
			t.Errorf("%s: counted again: %d", name, again)
		}
	}
	one, two := TextKey(0, KindContent, 0), TextKey(1, KindContent, 0)
	thought := TextKey(0, KindReasoning, 0)
	f("nothing", 0, 0)
	f("a word in pieces is one token", 1, 0, one, "riv", one, "er")
	f("choices do not mix", 4, 0, one, "the", two, "the", one, " small", two, " small")
	f("reasoning and content do not mix", 2, 1, thought, "river", one, "river")
	f("an emoji in two deltas", CountTokens("", []byte("😀")), 0, one, `\ud83d`, one, `\ude00`)
	f("names and inputs of calls", 4, 0, TextKey(0, KindToolName, 0), "look", TextKey(0, KindToolInput, 0), "{}",
		TextKey(0, KindToolName, 1), "go", TextKey(0, KindToolInput, 1), "{}")
}

func TestLongTextIsCountedByItsBeginning(t *testing.T) {
	var p Produced
	defer p.Release()
	key := TextKey(0, KindContent, 0)
	f := func(delta string, times int, want int64) {
		t.Helper()
		for range times {
			p.Add(key, []byte(delta))
		}
		n, _, exact := p.Count("")
		if exact || n < want*98/100 || n > want*102/100 {
			t.Errorf("%d tokens, want about %d; exact %v", n, want, exact)
		}
		p.Release()
	}
	f(" the", 50_000, 50_000)                                 // a token a delta
	f(" the small river moves", 20_000, 80_000)               // four of them
	f(strings.Repeat(" the small river", 4000), 1, 12_000)    // all at once
	f(strings.Repeat(" the small river", 100), 200, 60_000)   // large deltas
	f(strings.Repeat(" the small river", 100), 1000, 300_000) // and many
}

func TestEstimateFollowsTheUpstreamsHabit(t *testing.T) {
	f := func(delta string, times int, want int64) {
		t.Helper()
		var p Produced
		defer p.Release()
		for range times {
			p.Add(TextKey(0, KindContent, 0), []byte(delta))
		}
		if got := p.Estimate(); got != want {
			t.Errorf("%d deltas of %q: %d tokens, want %d", times, delta, got, want)
		}
	}
	f(" because", 100, 100)
	f("\\n\\n", 7, 7)
	f(strings.Repeat("the ", 10), 100, 1000)
	f("x", 0, 0)
}
