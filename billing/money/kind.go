package money

import (
	"strconv"

	"farebox/config"
)

// Kind is the kind of units that a line sells. The numbers are stored in journals and stores:
// new ones are appended, none is ever changed or used again. They stay below
// 128, since a record uses the highest bit.
type Kind uint8

// The kinds of sold units. Those of a prompt are disjoint: tokens that were
// read from a cache or written to one are not input tokens, too.
const (
	InputTokens           Kind = 1
	CacheReadTokens       Kind = 2
	CacheWriteTokens      Kind = 3
	OutputTokens          Kind = 4
	Images                Kind = 5
	InputImages           Kind = 6 // beyond the included ones
	WebSearches           Kind = 7
	PromptRewrites        Kind = 8
	RPCCredits            Kind = 9
	Characters            Kind = 10 // spoken
	AudioSeconds          Kind = 11 // transcribed
	Tracks                Kind = 12 // of music
	VideoSeconds          Kind = 13
	Scrapes               Kind = 14
	Searches              Kind = 15
	Documents             Kind = 16
	VoiceClones           Kind = 17
	CacheWrite1hTokens    Kind = 18 // kept for an hour
	EmbeddingTokens       Kind = 19
	EmbeddingCacheTokens  Kind = 20 // read
	EmbeddingStoredTokens Kind = 21 // written to a cache
	XResults              Kind = 22 // that a model found on X for a chat
	MusicSeconds          Kind = 23
	MusicCharacters       Kind = 24 // of a prompt or of lyrics
	Videos                Kind = 25 // that are sold whole
	ReferenceSeconds      Kind = 26 // of videos that one is made after

	kindsEnd = 27
)

// kind has the names of a kind in reports.
type kind struct {
	// the product and the unit it is sold in; an entry's SKU is
	// <model>-<what>-<sku>, or the model alone where sku is empty.
	what, sku string
	unit      string // the units of reports
	millions  bool   // prices and units are written by the million
	// beside says that it is sold with another kind of the same what, whose
	// units are the ones that a model's are counted in.
	beside bool
}

// kinds is the one table of the kinds' names and units.
var kinds = [kindsEnd]kind{
	InputTokens:           {what: "llm", sku: "input-mtoken", unit: "tokens", millions: true},
	CacheReadTokens:       {what: "llm", sku: "cache-read-mtoken", unit: "tokens", millions: true},
	CacheWriteTokens:      {what: "llm", sku: "cache-write-mtoken", unit: "tokens", millions: true},
	CacheWrite1hTokens:    {what: "llm", sku: "cache-write-1h-mtoken", unit: "tokens", millions: true},
	OutputTokens:          {what: "llm", sku: "output-mtoken", unit: "tokens", millions: true},
	EmbeddingTokens:       {what: "embedding", sku: "input-mtoken", unit: "tokens", millions: true},
	EmbeddingCacheTokens:  {what: "embedding", sku: "cache-read-mtoken", unit: "tokens", millions: true},
	EmbeddingStoredTokens: {what: "embedding", sku: "cache-write-mtoken", unit: "tokens", millions: true},
	Images:                {what: "image", sku: "unit", unit: "images"},
	InputImages:           {what: "image", sku: "input-unit", unit: "images", beside: true},
	WebSearches:           {what: "image", sku: "search-unit", unit: "images", beside: true},
	PromptRewrites:        {what: "image", sku: "enhancement-unit", unit: "images", beside: true},
	RPCCredits:            {what: "rpc", unit: "credits"},
	Characters:            {what: "tts", sku: "mchar", unit: "chars", millions: true},
	VoiceClones:           {what: "voice", sku: "clone", unit: "clones"},
	AudioSeconds:          {what: "asr", sku: "second", unit: "seconds"},
	Tracks:                {what: "music", sku: "track", unit: "tracks"},
	VideoSeconds:          {what: "video", sku: "second", unit: "seconds"},
	Scrapes:               {what: "scrape", sku: "page", unit: "pages"},
	Searches:              {what: "search", sku: "request", unit: "requests"},
	Documents:             {what: "parser", sku: "document", unit: "documents"},
	XResults:              {what: "x-search", sku: "result", unit: "results"},
	MusicSeconds:          {what: "music", sku: "second", unit: "seconds"},
	MusicCharacters:       {what: "music", sku: "kchar", unit: "chars"},
	Videos:                {what: "video", sku: "unit", unit: "videos"},
	ReferenceSeconds:      {what: "video", sku: "reference-second", unit: "seconds", beside: true},
}

// unknown describes kinds that a later farebox has sold.
var unknown = kind{what: "other", sku: "unit", unit: "units"}

func (k Kind) in() *kind {
	if k == 0 || k >= kindsEnd {
		return &unknown
	}
	return &kinds[k]
}

// What is the product that the kind is a part of: llm, embedding, image, rpc and so on.
// Reports add up the kinds of the same.
func (k Kind) What() string { return k.in().what }

// Unit is the unit of the kind in reports, such as tokens.
func (k Kind) Unit() string { return k.in().unit }

// OfTokens says whether tokens are sold.
func (k Kind) OfTokens() bool { return k.in().unit == "tokens" }

// Beside says whether the kind is sold along with another one of the same What, in
// whose units reports count.
func (k Kind) Beside() bool { return k.in().beside }

// SKU is the name of a kind of a model's sold units: <model>-<what>-<unit>.
func (k Kind) SKU(model string) string {
	t := k.in()
	if t.sku == "" {
		return model
	}
	return model + "-" + t.what + "-" + t.sku
}

// Prices and units that are counted by the million are written with so many
// decimals, and prices of single things with so many.
const (
	millionDigits = 6
	picoDigits    = 12
)

// AppendPrice appends a price in USD, of a million where the kind is counted by
// the million.
func (k Kind) AppendPrice(b []byte, p Pico) []byte {
	if k.in().millions {
		return config.AppendDecimal(b, int64(p), millionDigits)
	}
	return config.AppendDecimal(b, int64(p), picoDigits)
}

// AppendUnits appends a number of units, in millions where the kind is counted
// by the million.
func (k Kind) AppendUnits(b []byte, units int64) []byte {
	if k.in().millions {
		return config.AppendDecimal(b, units, millionDigits)
	}
	return strconv.AppendInt(b, units, 10)
}
