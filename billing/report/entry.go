package report

import (
	"cmp"

	"farebox/billing/journal"
	"farebox/billing/money"
)

// Entry is one line of a bill: the cost of one line of one request, as it was
// sold, in one currency (addendum 17.2).
type Entry struct {
	AtUs     int64 // when the request ended, Unix µs
	Model    string
	Kind     money.Kind
	Units    int64
	Price    money.Pico // a unit
	Amount   money.Nano // taken; negative: given back
	Currency money.Currency
	Moved    journal.Moved
	Debt     money.Nano // the debt from the whole request

	RequestID          [16]byte // all 0: it is not known
	TookMs             uint32
	Prompt, Completion int64 // tokens of the whole request, where tokens were sold

	Sum      bool  // of the requests of a day, which ended with AtUs; single ones are not kept any more
	Requests int64 // of a sum

	ModelNo, KeyNo uint32
	At             Position
}

// Position is the place of an entry among all of its account: by time,
// and within the same microsecond by node and sequence there.
type Position struct {
	Us   int64
	Node uint32
	Seq  uint64
	Line uint8 // line and currency of the entry within its request
}

// Compare orders positions.
func (p Position) Compare(q Position) int {
	if n := cmp.Compare(p.Us, q.Us); n != 0 {
		return n
	}
	if n := cmp.Compare(p.Node, q.Node); n != 0 {
		return n
	}
	if n := cmp.Compare(p.Seq, q.Seq); n != 0 {
		return n
	}
	return cmp.Compare(p.Line, q.Line)
}

func byPosition(a, b Entry) int { return a.At.Compare(b.At) }

// AppendEntries appends a record's entries that a currency paid (journal.AnyPlace:
// all), in the order of their positions. Lines without units have no entries.
func AppendEntries(to []Entry, r *journal.Record, node uint32, place int) []Entry {
	var s journal.Shares
	r.Spread(&s)
	us, sold, sign := r.TimeNs/1000, r.Sold(), r.Moved.Sign()
	prompt, completion := r.Tokens()
	for _, x := range s.All() {
		if place != journal.AnyPlace && place != int(x.Place) {
			continue
		}
		to = append(to, Entry{
			AtUs: us, Kind: x.Kind, Units: sign * x.Units, Price: sold[x.Line].Price, Amount: money.Nano(sign) * x.Amount,
			Currency: money.SpendOrder[x.Place], Moved: r.Moved, Debt: r.Debt,
			RequestID: r.RequestID, TookMs: r.TookMs, Prompt: prompt, Completion: completion,
			ModelNo: r.Model, KeyNo: r.Key, At: Position{Us: us, Node: node, Seq: r.Seq,
				Line: x.Line*money.Currencies + x.Place},
		})
	}
	return to
}
