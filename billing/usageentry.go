package billing

import (
	"farebox/billing/money"
	"farebox/billing/report"
)

// appendEntries appends a record's entries that a currency paid (anyPlace:
// all), in the order of their positions. Lines without units have none.
func appendEntries(to []report.Entry, r *record, node uint32, place int) []report.Entry {
	var s shares
	r.spread(&s)
	us, sold := r.timeNs/1000, r.sold()
	prompt, completion := r.tokens()
	for _, x := range s.all() {
		if place != anyPlace && place != int(x.place) {
			continue
		}
		to = append(to, report.Entry{
			AtUs: us, Kind: x.kind, Units: x.units, Price: sold[x.line].Price, Amount: x.amount, Currency: money.SpendOrder[x.place],
			RequestID: r.requestID, TookMs: r.tookMs, Prompt: prompt, Completion: completion,
			ModelNo: r.model, At: report.Position{Us: us, Node: node, Seq: r.seq, Line: x.line*money.Currencies + x.place},
		})
	}
	return to
}

// entriesOf gives a page's entries of a currency (anyPlace: all). Requests stand
// in the page as they were recorded, which differs from their times by moments.
func entriesOf(p *report.Page, before soldBefore, place int) (list []report.Entry, _ error) {
	page := usagePage{account: p.Account, first: p.First, last: p.Last, requests: p.Requests, data: p.Data}
	err := page.each(before, func(r *record) error {
		list = appendEntries(list, r, p.Node, place)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
