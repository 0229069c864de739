package money

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// "The price of a fraction of a cent was lost", "a thousand lines cost nothing."
func TestALineCostsItsPriceRoundedUpToTheNano(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 5_000_000),
			rapid.Int64Range(0, math.MaxInt64))
		l := Line{InputTokens, number.Draw(t, "units"), Pico(number.Draw(t, "price"))}
		want := new(big.Int).Mul(big.NewInt(l.Units), big.NewInt(int64(l.Price)))
		want.Add(want, big.NewInt(999)).Quo(want, big.NewInt(1000))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := l.Cost(); int64(got) != want.Int64() {
			t.Fatalf("%d units at %d pico cost %d, exactly %s", l.Units, l.Price, got, want)
		}
	})
}

func TestLinesKeepAllAdditions(t *testing.T) {
	var l, same Lines
	l.Add(InputTokens, 3, 500)
	l.Add(OutputTokens, -1, 2)
	l.Add(Images, 2, 1)
	all := l.All()
	if len(all) != 3 || all[0] != (Line{InputTokens, 3, 500}) || all[1] != (Line{OutputTokens, 0, 2}) || l.Cost() != 3 {
		t.Errorf("the lines are %v and cost %d", all, l.Cost())
	}
	for _, x := range all {
		same.Add(x.Kind, x.Units, x.Price)
	}
	if same != l {
		t.Error("the same lines are not equal")
	}
	l.Add(Images, math.MaxInt64, math.MaxInt64)
	l.Add(Images, math.MaxInt64, math.MaxInt64)
	if l.Cost() != math.MaxInt64 {
		t.Errorf("more than there is costs %d", l.Cost())
	}
	if n := testing.AllocsPerRun(100, func() {
		var l Lines
		l.Add(InputTokens, 3, 500)
		if l.Cost() != 2 {
			t.Error("another cost")
		}
	}); n != 0 {
		t.Errorf("lines allocate %v times", n)
	}
}

// "After an update my old images were bills for tokens." Stores and customers' books
// contain the numbers and words.
func TestKindsKeepTheirNumbersAndWords(t *testing.T) {
	for n, want := range []string{
		1: "m-llm-input-mtoken tokens 1.5 0.000003", 2: "m-llm-cache-read-mtoken tokens 1.5 0.000003",
		3: "m-llm-cache-write-mtoken tokens 1.5 0.000003",
		4: "m-llm-output-mtoken tokens 1.5 0.000003", 5: "m-image-unit images 0.0000015 3",
		6: "m-image-input-unit images 0.0000015 3",
		7: "m-image-search-unit images 0.0000015 3", 8: "m-image-enhancement-unit images 0.0000015 3",
		9:  "m credits 0.0000015 3",
		10: "m-tts-mchar chars 1.5 0.000003", 11: "m-asr-second seconds 0.0000015 3",
		12: "m-music-track tracks 0.0000015 3",
		13: "m-video-second seconds 0.0000015 3", 14: "m-scrape-page pages 0.0000015 3",
		15: "m-search-request requests 0.0000015 3",
		16: "m-parser-document documents 0.0000015 3", 17: "m-voice-clone clones 0.0000015 3",
		18: "m-llm-cache-write-1h-mtoken tokens 1.5 0.000003",
		19: "m-embedding-input-mtoken tokens 1.5 0.000003", 20: "m-embedding-cache-read-mtoken tokens 1.5 0.000003",
		21: "m-embedding-cache-write-mtoken tokens 1.5 0.000003", 22: "m-x-search-result results 0.0000015 3",
		23: "m-music-second seconds 0.0000015 3", 24: "m-music-kchar chars 0.0000015 3", 25: "m-video-unit videos 0.0000015 3",
		26:  "m-video-reference-second seconds 0.0000015 3",
		27:  "m-other-unit units 0.0000015 3",
		255: "m-other-unit units 0.0000015 3",
	} {
		k := Kind(n)
		got := k.SKU("m") + " " + k.Unit() + " " + string(k.AppendPrice(nil, 1_500_000)) + " " +
			string(k.AppendUnits(nil, 3))
		if want != "" && got != want {
			t.Errorf("kind %d is %q, was %q", n, got, want)
		}
	}
	if !EmbeddingTokens.OfTokens() || Images.OfTokens() || RPCCredits.OfTokens() || Images.Beside() ||
		!WebSearches.Beside() {
		t.Error("a kind is counted as another")
	}
}
