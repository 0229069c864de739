package report

import (
	"cmp"

	"farebox/billing/money"
)

// Entry is one line of a bill: what one line of one request, as it was sold,
// cost in one currency (addendum 17.2).
type Entry struct {
	AtUs     int64 // when the request ended, Unix µs
	Model    string
	Kind     money.Kind
	Units    int64
	Price    money.Pico // a unit
	Amount   money.Nano // what was taken, not negative
	Currency money.Currency

	RequestID          [16]byte
	TookMs             uint32
	Prompt, Completion int64 // tokens of the whole request, where tokens were sold

	ModelNo uint32
	At      Position
}

// Position is where an entry stands among all of its account: by time,
// and what happened in the same microsecond by node and sequence there.
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
