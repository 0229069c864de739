package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Prices of music: everything that a client may order has one price, and whether one model is
// dearer than another.

// checkPrice checks that exactly one shape of price is written, and that every track
// that can be ordered has a price.
func (m *Music) checkPrice(v *validator, path string) {
	const expected = "expected one of generation:, durations:, per_second: and per_thousand_characters:, in USD"
	p := m.Price
	if p == nil {
		v.wrong(path, "a model without a price is not offered; %s, or price: free if it is free", expected)
		return
	}
	if p.Free || v.unread(path) {
		return
	}
	var written []string
	for _, key := range []string{"generation", "durations", "per_second", "per_thousand_characters"} {
		if v.has(path + "." + key) {
			written = append(written, key)
		}
	}
	if len(written) != 1 {
		text := "no price is written"
		if len(written) > 1 {
			text = "there are " + strings.Join(written, " and ") + ", and a job has one price"
		}
		v.wrong(path, "%s; %s", text, expected)
		return
	}
	at := path + "." + written[0]
	if timed := m.Constraints.Timed(); !timed && (p.Durations != nil || p.PerSecond != nil) {
		v.wrong(at, "clients cannot say how long a track is to be, so that this price fits none; expected "+
			"constraints: { min_duration: …, max_duration: … } or durations:")
		return
	}
	switch {
	case p.Durations != nil:
		p.checkTiers(v, at, &m.Constraints)
	case p.PerThousandCharacters != nil:
		m.checkPerCharacter(v, at)
	case p.PerSecond != nil:
		if *p.PerSecond > maxPerSecond {
			v.wrong(at, "%s is out of range; expected 0 to %s USD", v.shown(at), maxPerSecond)
		}
		v.notNothing(at, *p.PerSecond)
	default:
		v.each(at, *p.Generation)
		v.notNothing(at, *p.Generation)
	}
}

func (v *validator) notNothing(path string, e Each) {
	if e == 0 {
		v.wrong(path, "the price is 0; expected price: free if the model is free")
	}
}

// checkPerCharacter checks that it is known how many characters are sung or spoken.
func (m *Music) checkPerCharacter(v *validator, path string) {
	each := *m.Price.PerThousandCharacters
	v.each(path, each)
	v.notNothing(path, each)
	if each%charactersPriced != 0 {
		v.wrong(path, "%s has too many decimals; expected USD of 1000 characters with at most 9", v.shown(path))
	}
	if isOn(m.Capabilities.LyricsOptimizer) {
		v.wrong(path, "the model is priced by the characters of lyrics, but how many it writes itself is not known "+
			"before; expected another price, or no lyrics_optimizer")
	}
	if m.Capabilities.Lyrics && !m.Capabilities.LyricsRequired {
		v.wrong(path, "the model sings lyrics and is priced by their characters, but tracks without lyrics would cost "+
			"nothing; expected capabilities: { lyrics_required: true }")
	}
}

// checkTiers checks that the tiers follow each other without holes and cover every
// length that can be ordered.
func (p *MusicPrice) checkTiers(v *validator, path string, c *MusicConstraints) {
	if n := len(p.Durations); n == 0 || n > maxChoices {
		v.wrong(path, "%d tiers are listed; expected 1 to %d, such as 60: { price: 0.69, min_seconds: 1, "+
			"max_seconds: 60 }", n, maxChoices)
		return
	}
	var sum Each
	for _, name := range slices.Sorted(maps.Keys(p.Durations)) {
		at, tier := join(path, name), p.Durations[name]
		if n, err := strconv.ParseInt(name, 10, 64); err != nil || n < 1 || n > maxSeconds {
			v.wrongKey(at, "%s is not a number of seconds; expected 1 to %d, such as 60", quote(name), maxSeconds)
			return
		}
		if !v.has(at + ".price") {
			v.wrong(at+".price", "the price of the tier is missing; expected price: in USD of a job")
			return
		}
		v.each(at+".price", tier.Price)
		whole(v, at+".min_seconds", tier.MinSeconds, 1, maxSeconds)
		whole(v, at+".max_seconds", tier.MaxSeconds, max(tier.MinSeconds, 1), maxSeconds)
		if sum += tier.Price; v.bad[at+".min_seconds"] || v.bad[at+".max_seconds"] {
			return
		}
	}
	v.notNothing(path, sum)
	least, most := c.span()
	next := int64(0)
	for _, name := range p.Tiers() {
		tier, at := p.Durations[name], join(path, name)
		switch {
		case next == 0 && tier.MinSeconds > least:
			v.wrong(at+".min_seconds", "tracks of %d seconds can be ordered and have no price; expected at most %d",
				least, least)
			return
		case next > 0 && tier.MinSeconds != next:
			v.wrong(at+".min_seconds", "%d does not follow the tier before it, which ends at %d; expected %d",
				tier.MinSeconds, next-1, next)
			return
		}
		next = tier.MaxSeconds + 1
	}
	if next <= most {
		v.wrong(path, "tracks of %d seconds can be ordered, and the tiers end at %d; expected a tier up to %d", most,
			next-1, most)
	}
}

// span are the shortest and the longest track that can be ordered.
func (c *MusicConstraints) span() (least, most int64) {
	least, most = c.MinDuration, c.MaxDuration
	for _, seconds := range c.Durations {
		if least == 0 || seconds < least {
			least = seconds
		}
		most = max(most, seconds)
	}
	return least, most
}

// record is the price in the catalog.
func (p *MusicPrice) record() []Member {
	switch {
	case p.Free:
		return []Member{{"generation", Each(0)}}
	case p.Generation != nil:
		return []Member{{"generation", *p.Generation}}
	case p.PerSecond != nil:
		return []Member{{"per_second", *p.PerSecond}}
	case p.PerThousandCharacters != nil:
		return []Member{{"per_thousand_characters", *p.PerThousandCharacters}}
	}
	var tiers []Member
	for _, name := range p.Tiers() {
		tier := p.Durations[name]
		price := Decimal(tier.Price.String())
		tiers = append(tiers, Member{name, []Member{{"usd", price}, {"diem", price},
			{"min_seconds", tier.MinSeconds}, {"max_seconds", tier.MaxSeconds}}})
	}
	return []Member{{"durations", tiers}}
}

// cost is the price of a job, in 1e-12 USD.
func (m *Music) cost(seconds, characters int64) Each {
	p := m.Price
	switch {
	case p.Free:
		return 0
	case p.Generation != nil:
		return *p.Generation
	case p.PerSecond != nil:
		return *p.PerSecond * Each(seconds)
	case p.PerThousandCharacters != nil:
		return Each(p.PerCharacter()) * Each(characters)
	}
	_, tier, _ := p.Tier(seconds)
	return tier.Price
}

// dearer says whether anything that a client of the other model could order costs
// more here. Between the edges of tiers and limits prices are straight lines, so that
// the edges tell it.
func (m *Music) dearer(than Spec) bool {
	other := than.(*Music)
	if m.Price == nil || other.Price == nil || m.Price.Free {
		return false
	}
	least, most := other.BilledCharacters()
	characters := [][2]int64{{least, least}, {most, most}} // here, there
	if m.BillsLyrics() != other.BillsLyrics() {
		_, here := m.BilledCharacters()
		characters = [][2]int64{{here, least}}
	}
	more := func(here, there int64) bool {
		return slices.ContainsFunc(characters, func(n [2]int64) bool {
			return m.cost(here, n[0]) > other.cost(there, n[1])
		})
	}
	if more(m.Constraints.DefaultDuration, other.Constraints.DefaultDuration) {
		return true
	}
	for _, seconds := range slices.Concat(other.edges(), m.edges()) {
		if other.Constraints.TakesSeconds(seconds) && m.Constraints.TakesSeconds(seconds) && more(seconds, seconds) {
			return true
		}
	}
	return false
}

// edges are lengths of tracks between which no price bends.
func (m *Music) edges() []int64 {
	c := &m.Constraints
	list := slices.Concat(c.Durations, []int64{c.MinDuration, c.MaxDuration})
	for _, tier := range m.Price.Durations {
		list = append(list, tier.MinSeconds, tier.MaxSeconds)
	}
	return list
}
