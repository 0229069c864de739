package billing

import (
	"cmp"
	"slices"
)

// UsageEntry is one line of a bill: what one class of tokens, or the pictures,
// of one request cost in one currency (addendum 17.2).
type UsageEntry struct {
	AtUs      int64 // when the request ended, Unix µs
	Model     string
	ModelType string // as in the config: text, embedding, image, …
	Line      Line
	Units     int64 // tokens or pictures
	Price     int64 // pico-USD a unit
	Amount    Nano  // what was taken, not negative
	Currency  Currency

	RequestID          [16]byte
	TookMs             uint32
	Prompt, Completion int64 // tokens of the whole request, where OfTokens

	model uint32
	at    usagePosition
}

// Line is a class of tokens with a price of its own (addendum 19.2).
type Line uint8

// The lines of a charge.
const (
	LineInput      Line = lineInput
	LineCacheRead  Line = lineCacheRead
	LineCacheWrite Line = lineCacheWrite
	LineOutput     Line = lineOutput
)

// usagePosition is where an entry stands among all of its account: by time,
// and what happened in the same microsecond by node and sequence there.
type usagePosition struct {
	us   int64
	node uint32
	seq  uint64
	line uint8 // line and currency of the entry within its request
}

func (p usagePosition) compare(q usagePosition) int {
	if n := cmp.Compare(p.us, q.us); n != 0 {
		return n
	}
	if n := cmp.Compare(p.node, q.node); n != 0 {
		return n
	}
	if n := cmp.Compare(p.seq, q.seq); n != 0 {
		return n
	}
	return cmp.Compare(p.line, q.line)
}

// entryCount is how many entries the record has.
func (r *record) entryCount() (n entryCount) {
	var cells [currencies]cell
	r.spread(&cells)
	for place := range cells {
		c := &cells[place]
		for line := range c.tokens {
			if c.tokens[line] != 0 || c.amounts[line] != 0 {
				n[place]++
			}
		}
	}
	return n
}

// appendEntries appends the record's entries that a currency paid (anyPlace:
// all), in the order of their positions. Lines without tokens have none.
func (r *record) appendEntries(to []UsageEntry, node uint32, place int) []UsageEntry {
	var cells [currencies]cell
	r.spread(&cells)
	us := r.timeNs / 1000
	for line := range lineCount {
		for p := range cells {
			c := &cells[p]
			if c.tokens[line] == 0 && c.amounts[line] == 0 || place != anyPlace && place != p {
				continue
			}
			to = append(to, UsageEntry{
				AtUs: us, Line: Line(line), Units: c.tokens[line], Price: r.prices[line], Amount: Nano(c.amounts[line]), Currency: spendOrder[p],
				RequestID: r.requestID, TookMs: r.tookMs, Prompt: r.usage.Prompt, Completion: r.usage.Completion,
				model: r.model, at: usagePosition{us, node, r.seq, uint8(line*currencies + p)},
			})
		}
	}
	return to
}

// list gives the page's entries of a currency (anyPlace: all) in order of
// position. Requests stand in the page as they were recorded, which differs
// from their times by moments.
func (p *usagePage) list(place int) ([]UsageEntry, error) {
	list := make([]UsageEntry, 0, p.entries.of(place))
	err := p.each(func(r *record) error {
		list = r.appendEntries(list, p.node, place)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !slices.IsSortedFunc(list, byPosition) {
		slices.SortFunc(list, byPosition)
	}
	return list, nil
}

func byPosition(a, b UsageEntry) int { return a.at.compare(b.at) }
