package jobs

import (
	"strconv"
	"unicode/utf8"

	"farebox/billing/money"
	"farebox/config"
	"farebox/providers/queue"
	"farebox/routes"
)

// musicBill holds the billed units of a track.
type musicBill struct {
	Seconds    int64 // that are ordered; 0: the model decides
	Characters int64 // that are billed, of models priced by them
}

// musicBillOf gives the billed units of an order.
func musicBillOf(m *config.Music, o *queue.Order) musicBill {
	text := o.Prompt
	if m.BillsLyrics() {
		text = o.Lyrics
	}
	return musicBill{Seconds: o.Seconds, Characters: int64(utf8.RuneCountInString(text))}
}

// lines are the charge of a job: one line at one price (addendum 19.2).
func (b *musicBill) lines(p *config.MusicPrice) (l money.Lines) {
	switch {
	case p.Free:
		l.Add(money.Tracks, 1, 0)
	case p.Generation != nil:
		l.Add(money.Tracks, 1, money.Pico(*p.Generation))
	case p.PerSecond != nil:
		l.Add(money.MusicSeconds, b.Seconds, money.Pico(*p.PerSecond))
	case p.PerThousandCharacters != nil:
		l.Add(money.MusicCharacters, b.Characters, p.PerCharacter())
	default:
		// The config has made sure that every length has a tier.
		_, tier, _ := p.Tier(b.Seconds)
		l.Add(money.Tracks, 1, money.Pico(tier.Price))
	}
	return l
}

// quoteMusic is the answer of POST /audio/quote (addendum 9.5).
func quoteMusic(_ *Capability, _ *routes.Call, body *form) ([]byte, *routes.Error) {
	f := musicOf(body)
	var b musicBill
	var e *routes.Error
	if b.Seconds, e = f.seconds(); e != nil {
		return nil, e
	}
	if b.Characters, e = f.characters(); e != nil {
		return nil, e
	}
	return b.appendQuote(nil, f.model.Price), nil
}

// characters is how many the quote is for; 0 where the model is not priced by them.
func (f *musicForm) characters() (int64, *routes.Error) {
	if f.model.Price.PerThousandCharacters == nil {
		return 0, nil
	}
	if f.Member(-1, musicCharacterCount) == nil {
		return 0, routes.Invalid(routes.Issue{Code: "invalid_type", Path: "character_count", Expected: "integer",
			Received: "undefined", Message: "character_count: is required, since model " + f.id +
				" is priced by characters."})
	}
	n := f.Integer(musicCharacterCount)
	least, most := f.model.BilledCharacters()
	switch {
	case n < least:
		limit := strconv.FormatInt(least, 10)
		return 0, routes.Invalid(routes.Issue{Code: "too_small", Path: "character_count", Minimum: limit,
			Message: "character_count: model " + f.id + " takes at least " + limit + " characters, not " +
				strconv.FormatInt(n, 10) + "."})
	case n > most:
		limit := strconv.FormatInt(most, 10)
		return 0, routes.Invalid(routes.Issue{Code: "too_big", Path: "character_count", Maximum: limit,
			Message: "character_count: model " + f.id + " takes at most " + limit + " characters, not " +
				strconv.FormatInt(n, 10) + "."})
	}
	return n, nil
}

// thousand is the scale between characters and the units of their price.
const thousand = 3

// appendQuote appends the price of a job, and its parts: the quote is unit_price times units,
// rounded up to 1e-9.
func (b *musicBill) appendQuote(dst []byte, p *config.MusicPrice) []byte {
	lines := b.lines(p)
	pricing, price, units := "generation", config.Each(lines.All()[0].Price), []byte("1")
	switch {
	case p.PerSecond != nil:
		pricing, units = "per_second", strconv.AppendInt(nil, b.Seconds, 10)
	case p.PerThousandCharacters != nil:
		pricing, price = "per_thousand_characters", *p.PerThousandCharacters
		units = config.AppendDecimal(nil, b.Characters, thousand)
	case p.Durations != nil:
		pricing = "durations"
	}
	dst = append(append(dst, `{"quote":`...), lines.Cost().String()...)
	dst = append(append(dst, `,"breakdown":{"currency":"USD","pricing":"`...), pricing...)
	dst = append(append(dst, `","unit_price":`...), price.String()...)
	dst = append(append(dst, `,"units":`...), units...)
	dst = appendCount(append(dst, `,"duration_seconds":`...), b.Seconds)
	dst = appendCount(append(dst, `,"character_count":`...), b.Characters)
	return append(dst, "}}"...)
}

// appendCount appends a number, 0 as null.
func appendCount(dst []byte, n int64) []byte {
	if n == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n, 10)
}
