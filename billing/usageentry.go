package billing

import (
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/report"
)

// appendEntries appends a record's entries that a currency paid (journal.AnyPlace:
// all), in the order of their positions. Lines without units have none.
func appendEntries(to []report.Entry, r *journal.Record, node uint32, place int) []report.Entry {
	var s journal.Shares
	r.Spread(&s)
	us, sold := r.TimeNs/1000, r.Sold()
	prompt, completion := r.Tokens()
	for _, x := range s.All() {
		if place != journal.AnyPlace && place != int(x.Place) {
			continue
		}
		to = append(to, report.Entry{
			AtUs: us, Kind: x.Kind, Units: x.Units, Price: sold[x.Line].Price, Amount: x.Amount,
			Currency:  money.SpendOrder[x.Place],
			RequestID: r.RequestID, TookMs: r.TookMs, Prompt: prompt, Completion: completion,
			ModelNo: r.Model, At: report.Position{Us: us, Node: node, Seq: r.Seq,
				Line: x.Line*money.Currencies + x.Place},
		})
	}
	return to
}

// entriesOf gives a page's entries of a currency (journal.AnyPlace: all). Requests stand
// in the page as they were recorded, which differs from their times by moments.
func entriesOf(p *report.Page, before journal.SoldBefore, place int) (list []report.Entry, _ error) {
	page := journal.Page{Account: p.Account, First: p.First, Last: p.Last, Requests: p.Requests, Data: p.Data}
	err := page.Each(before, func(r *journal.Record) error {
		list = appendEntries(list, r, p.Node, place)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
