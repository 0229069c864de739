package dialect

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// writings are texts of kinds that models write, about as long as asked.
func writings(r *rand.Rand, size int) map[string]string {
	repeat := func(one func() string) string {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(one())
		}
		return b.String()
	}
	pick := func(words string) string {
		list := strings.Fields(words)
		return list[r.IntN(len(list))]
	}
	prose := func() string {
		return pick("The river moves past old stone houses and nobody remembers when their remarkable builders arrived, "+
			"although some inhabitants claim otherwise; undoubtedly tomorrow's newspapers will explain.") + " "
	}
	return map[string]string{
		"prose": repeat(prose),
		"Chinese": repeat(func() string {
			return pick("老 石 屋 旁 的 小 河 没有 人 记得 他们 什么 时候 到来 ， 。 中国 历史 学习")
		}),
		"Russian": repeat(func() string {
			return pick("река течёт мимо старых домов и никто не помнит когда пришли строители") + " "
		}),
		"a program": repeat(func() string {
			return fmt.Sprintf("\tif %s := range list%d {\n\t\treturn %s.Value(ctx, %q)\n\t}\n", pick("item key entry"), r.IntN(99),
				pick("store http.Client s.index"), pick("name id"))
		}),
		"figures": repeat(func() string {
			return fmt.Sprintf(`{"id":%d,"at":"2026-11-%02d","x":%.4f},`, r.IntN(1e6), r.IntN(30), r.Float64())
		}),
		"base64":  repeat(func() string { return base64.StdEncoding.EncodeToString([]byte(prose())) }),
		"letters": strings.Repeat("qxzj", size/4),
		"spaces":  strings.Repeat(" ", size),
		"emoji":   repeat(func() string { return pick("😀 👍 🚀 🎉") }),
		"half prose, half Chinese": repeat(prose)[:size/2] +
			strings.Repeat("老石屋旁的小河", size/42),
	}
}

// A usage that cannot be true was answered with the tokenising of up to 8 KB, each time. Above
// a rate, at most 768 bytes are tokenised, whatever the text. The result never exceeds the
// whole count, and is at least two thirds of it where tokens are shorter than the sample.
func TestASampleIsSmallAndNeverTooMuch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		for _, size := range []int{900, 2 << 10, 8 << 10, 40 << 10} {
			for name, text := range writings(r, size) {
				work := 0
				for i := range windows {
					w, _ := window([]byte(text), i)
					work += len(w)
				}
				if work > windows*windowBytes || work < windows*windowBytes/2 {
					t.Errorf("%s of %d bytes: %d bytes are tokenised", name, size, work)
				}
				var p Produced
				for at := 0; at < len(text); at += 7 {
					p.Add(TextKey(0, KindContent, 0), []byte(text[at:min(len(text), at+7)]))
				}
				right, _, _ := p.Count("")
				got, _ := p.sample("")
				if again, _ := p.sample(""); got > right || got < right*2/3 && name != "spaces" || got < 1 || again != got {
					t.Errorf("%s of %d bytes: %d and %d tokens, %d by a whole count", name, size, got, again, right)
				}
				p.Release()
			}
		}
	}
}

// An upstream that lies in every answer has few of them counted whole. The charge of a
// single answer does not change.
func TestAnUpstreamThatAlwaysLiesCostsBoundedWork(t *testing.T) {
	t.Parallel()
	c := &Chat{Model: &Model{}}
	words := []byte(strings.Repeat("The small river moves. ", 100))
	short := words[:windows*windowBytes]
	settle := func(text []byte) int64 {
		var p Produced
		defer p.Release()
		p.Add(TextKey(0, KindReasoning, 0), text[:len(text)/2])
		p.Add(TextKey(0, KindContent, 0), text[len(text)/2:])
		lie := Usage{Prompt: 5, Completion: 3, Seen: true}
		u := Settle(lie, true, &p, c)
		if again := Settle(lie, true, &p, c); again != u || u.Reasoning < u.Completion*2/5 || u.Reasoning > u.Completion*3/5 {
			t.Errorf("%+v, then %+v", u, again)
		}
		return u.Completion
	}
	right := settle(words)
	begin, exact := time.Now(), 1
	for range 1000 {
		switch n := settle(words); {
		case n == right:
			exact++
		case n > right || n < right*2/3:
			t.Fatalf("%d tokens instead of %d", n, right)
		}
	}
	if seconds := int(time.Since(begin)/time.Second) + 2; exact > wholeCounts*seconds || exact < wholeCounts {
		t.Errorf("%d of 1,000 answers are counted whole in %d seconds", exact, seconds)
	}
	if n, want := settle(short), CountTokens("", short[:len(short)/2])+CountTokens("", short[len(short)/2:]); n != want {
		t.Errorf("a short text has %d tokens, not %d", n, want)
	}
	var d Doubts
	for second := range int64(3) {
		for n := range 20 {
			if may := d.mayCount(time.Unix(second, 0)); may != (n < wholeCounts) {
				t.Fatalf("second %d: %t for number %d", second, may, n)
			}
		}
	}
}
