package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"farebox/config"
)

// musicPrices draws the keys of a model with some price, and whether its lyrics are
// billed.
func musicPrices(t *rapid.T) (keys string) {
	decimal := func(name string, decimals int) string {
		n := rapid.Int64Range(1, 5_000_000).Draw(t, name)
		return string(config.AppendDecimal(nil, n, rapid.IntRange(5, decimals).Draw(t, name+" decimals")))
	}
	lyrics := rapid.Bool().Draw(t, "lyrics")
	if lyrics {
		keys = "    capabilities: { lyrics: true, lyrics_required: true }\n"
	}
	least := rapid.Int64Range(1, 100).Draw(t, "least")
	most := least + rapid.Int64Range(0, 500).Draw(t, "more")
	limits := "min_prompt_characters: 1"
	if rapid.Bool().Draw(t, "timed") {
		limits += fmt.Sprintf(", min_duration: %d, max_duration: %d", least, most)
	}
	price := "free"
	switch shape := rapid.IntRange(0, 4).Draw(t, "shape"); {
	case shape == 0:
		price = "{ generation: " + decimal("price", 12) + " }"
	case shape == 1:
		price = "{ per_thousand_characters: " + decimal("price", 9) + " }"
	case shape == 2 && strings.Contains(limits, "max_duration"):
		price = "{ per_second: " + decimal("price", 12) + " }"
	case shape == 3 && strings.Contains(limits, "max_duration"):
		ends := append(rapid.SliceOfN(rapid.Int64Range(least, most), 0, 6).Draw(t, "ends"), most)
		slices.Sort(ends)
		var tiers []string
		from := least
		for _, to := range slices.Compact(ends) {
			tiers = append(tiers, fmt.Sprintf("%d: { price: %s, min_seconds: %d, max_seconds: %d }", to,
				decimal("price", 9), from, to))
			from = to + 1
		}
		price = "{ durations: { " + strings.Join(tiers, ", ") + " } }"
	}
	return keys + "    constraints: { " + limits + " }\n    price: " + price + "\n"
}

// A job costs exactly its quote.
func TestAJobCostsItsQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		keys := musicPrices(rt)
		m := musicModelOf(t, keys)
		words := rapid.StringOfN(rapid.RuneFrom([]rune("a é日😀\n")), 1, 60, -1)
		body := map[string]any{"model": "m", "prompt": "x" + words.Draw(rt, "prompt")}
		ask := map[string]any{"model": "m"}
		billed := body["prompt"].(string)
		if m.Capabilities.Lyrics {
			billed = "x" + words.Draw(rt, "lyrics")
			body["lyrics_prompt"] = billed
		}
		if c := &m.Constraints; c.Timed() && rapid.Bool().Draw(rt, "says how long") {
			body["duration_seconds"] = rapid.Int64Range(c.MinDuration, c.MaxDuration).Draw(rt, "seconds")
			ask["duration_seconds"] = body["duration_seconds"]
		}
		if m.Price.PerThousandCharacters != nil {
			ask["character_count"] = utf8.RuneCountInString(billed)
		}
		text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
		order, e := orderOf(t, m, text(body))
		if e != nil {
			rt.Fatalf("%s is refused: %+v", text(body), e)
		}
		quote, e := quoteOf(t, m, text(ask))
		if e != nil {
			rt.Fatalf("%s is refused: %+v", text(ask), e)
		}
		bill := musicBillOf(m, order)
		lines := bill.lines(m.Price)
		var said struct{ Quote json.Number }
		if err := json.Unmarshal(quote, &said); err != nil || said.Quote.String() != lines.Cost().String() {
			rt.Fatalf("%s costs %s, and the quote is %s", text(body), lines.Cost(), quote)
		}
	})
}
