package store

import (
	"context"
	"strings"

	"farebox/billing/money"
)

// MoneyFilter selects movements of money that are not charges.
type MoneyFilter struct {
	Kind         string // of the entries
	Account      uint32
	Currency     money.Currency
	FromUs, ToUs int64
	Behind       MoneyPlace
}

// MoneyPlace is a place in a list of movements.
type MoneyPlace struct{ AtUs, Entry int64 }

// MoneyIn lists what entries of a kind have booked for customers, in the order of time; for one
// customer, in the order of booking. next is where the list goes on; nil: nowhere.
func (s *sqlStore) MoneyIn(f MoneyFilter, most int) (rows []*Booking, next *Booking, err error) {
	l := listing[Booking]{text: selectBooking, order: "e.ts_us, e.id", scan: scanBooking, matches: f.matches,
		place: func(b *Booking) []any { return []any{b.AtUs, b.Entry} }}
	if f.Behind != (MoneyPlace{}) {
		l.behind = []any{f.Behind.AtUs, f.Behind.Entry}
	}
	if f.Account == 0 {
		l.add("e.kind = ", f.Kind, true)
		l.within("e.ts_us", f.FromUs, f.ToUs)
		return l.read(s, most)
	}
	l.text = strings.Replace(selectBooking, "entry e CROSS JOIN posting p", "posting p CROSS JOIN entry e", 1)
	l.order, l.place = "p.entry", func(b *Booking) []any { return []any{b.Entry} }
	if l.behind != nil {
		l.behind = l.behind[1:]
	}
	l.add("p.moved <> 0 AND p.account = ", f.Account, true)
	return l.read(s, most)
}

func (f *MoneyFilter) matches(b *Booking) bool {
	return b.Kind == f.Kind && (f.Currency == 0 || b.Currency == f.Currency) && (f.FromUs == 0 || b.AtUs >= f.FromUs) &&
		(f.ToUs == 0 || b.AtUs < f.ToUs)
}

// LiabilityDay is what all accounts had at the end of a day.
type LiabilityDay struct {
	Day      int32
	Balances money.Parts
}

// Liability is what all accounts had at the end of each day, by their postings. It goes back
// from now, so it reads what was booked since the first day.
func (s *sqlStore) Liability(first, last int32) (days []LiabilityDay, err error) {
	err = s.Report(context.Background(), func(q *Query) error {
		var now money.Parts
		moved := map[int32]*money.Parts{}
		err := each2(q, func(c money.Currency, n money.Nano) { now[money.PlaceOf(c)] = n },
			"SELECT currency, CAST(sum(balance) AS {I64}) FROM account_sum GROUP BY currency")
		if err != nil {
			return err
		}
		err = each3(q, func(day int32, c money.Currency, n money.Nano) {
			if moved[day] == nil {
				moved[day] = &money.Parts{}
			}
			moved[day][money.PlaceOf(c)] += n
		}, `SELECT e.ts_us / 86400000000, p.currency, CAST(sum(p.amount) AS {I64}) FROM entry e
			JOIN posting p ON p.entry = e.id AND p.book = 'customer' WHERE e.ts_us >= $1 GROUP BY 1, 2`,
			int64(first+1)*86_400_000_000)
		if err != nil {
			return err
		}
		days = nil
		latest := last
		for day := range moved {
			latest = max(latest, day)
		}
		for day := latest; day >= first; day-- {
			if day <= last {
				days = append(days, LiabilityDay{day, now})
			}
			if moved[day] != nil {
				now.Sub(moved[day])
			}
		}
		return nil
	})
	return days, err
}
