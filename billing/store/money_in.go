package store

import (
	"context"
	"database/sql"

	"farebox/billing/money"
)

// MoneyFilter selects movements of money that are not charges.
type MoneyFilter struct {
	Kind         string // of the entries
	Account      uint32
	Currency     money.Currency
	FromUs, ToUs int64
	AfterUs      int64 // of the last one before
	AfterEntry   int64
}

// MoneyIn lists what entries of a kind have booked for customers, in the order of time.
func (s *sqlStore) MoneyIn(f MoneyFilter, most int) ([]*Booking, error) {
	var w where
	w.add("e.kind = ", f.Kind, true)
	w.add("p.account = ", f.Account, f.Account != 0)
	w.add("p.currency = ", int64(f.Currency), f.Currency != 0)
	w.add("e.ts_us >= ", max(f.FromUs, f.AfterUs), f.FromUs != 0 || f.AfterUs != 0)
	w.add("e.ts_us < ", f.ToUs, f.ToUs != 0)
	if f.AfterEntry != 0 {
		w.add("(e.ts_us > ", f.AfterUs, true)
		w.add("e.id > ", f.AfterEntry, true)
		n := len(w.terms)
		w.terms = append(w.terms[:n-2], w.terms[n-2]+" OR "+w.terms[n-1]+")")
	}
	return ask(s, func(q *Query) (all []*Booking, err error) {
		err = q.Each(func(rows *sql.Rows) error {
			b, err := scanBooking(rows.Scan)
			all = append(all, b)
			return err
		}, selectBooking+w.text("e.ts_us, e.id", most), w.args...)
		return all, err
	})
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
