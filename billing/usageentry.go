package billing

import (
	"cmp"
	"slices"

	"farebox/billing/money"
)

// UsageEntry is one line of a bill: what one line of one request, as it was sold,
// cost in one currency (addendum 17.2).
type UsageEntry struct {
	AtUs     int64 // when the request ended, Unix µs
	Model    string
	Kind     money.Kind
	Units    int64
	Price    money.Pico // a unit
	Amount   Nano       // what was taken, not negative
	Currency Currency

	RequestID          [16]byte
	TookMs             uint32
	Prompt, Completion int64 // tokens of the whole request, where tokens were sold

	model uint32
	at    usagePosition
}

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

// appendEntries appends the record's entries that a currency paid (anyPlace:
// all), in the order of their positions. Lines without units have none.
func (r *record) appendEntries(to []UsageEntry, node uint32, place int) []UsageEntry {
	var s shares
	r.spread(&s)
	us, sold := r.timeNs/1000, r.sold()
	prompt, completion := r.tokens()
	for _, x := range s.all() {
		if place != anyPlace && place != int(x.place) {
			continue
		}
		to = append(to, UsageEntry{
			AtUs: us, Kind: x.kind, Units: x.units, Price: sold[x.line].Price, Amount: x.amount, Currency: money.SpendOrder[x.place],
			RequestID: r.requestID, TookMs: r.tookMs, Prompt: prompt, Completion: completion,
			model: r.model, at: usagePosition{us, node, r.seq, x.line*money.Currencies + x.place},
		})
	}
	return to
}

// list gives the page's entries of a currency (anyPlace: all) in order of
// position. Requests stand in the page as they were recorded, which differs
// from their times by moments.
func (p *usagePage) list(before soldBefore, place int) ([]UsageEntry, error) {
	list := make([]UsageEntry, 0, p.entries.of(place))
	err := p.each(before, func(r *record) error {
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
