package upstream

import (
	"testing"

	"pgregory.net/rapid"
)

func TestEveryWordIsOneToken(t *testing.T) {
	for _, list := range [][]string{plainWords, unicodeWords} {
		for _, w := range list {
			if n := CountText(w); n != 1 {
				t.Errorf("%q is %d tokens", w, n)
			}
			if n := CountText(w[1:]); n != 1 {
				t.Errorf("%q at the start of a text is %d tokens", w[1:], n)
			}
		}
	}
}

func TestTokensDoNotJoinWhenTheTextIsCountedAsAWhole(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		list := plainWords
		if rapid.Bool().Draw(r, "unicode") {
			list = unicodeWords
		}
		w := words{list: list, start: rapid.IntRange(0, 500).Draw(r, "start"), n: rapid.IntRange(1, 300).Draw(r, "n")}
		whole := string(appendText(nil, w))
		if got := CountText(whole); got != int64(w.n) {
			r.Fatalf("%d words count as %d tokens: %q", w.n, got, whole)
		}
	})
}

func TestPromptTokensFollowTheCookbook(t *testing.T) {
	// 3 + 1 + "hello world" (2 tokens), and 3 for the reply.
	f := func(body string, want int64) {
		t.Helper()
		if got := CountPrompt([]byte(body)); got != want {
			t.Errorf("%s: %d prompt tokens, want %d", body, got, want)
		}
	}
	f(`{"messages":[{"role":"user","content":"hello world"}]}`, 9)
	f(`{"messages":[{"role":"user","content":"hello world"},{"role":"user","content":"hello world"}]}`, 15)
	f(`{"messages":[{"role":"user","name":"bob","content":"hello world"}]}`, 11)
	f(`{"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"text","text":"world"}]}]}`, 9)
	f(`{"system":"hello","messages":[{"role":"user","content":"hello world"}]}`, 14)
}
