package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
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

// MoneyIn lists the bookings of entries of a kind for customers, in the order of time; for one
// customer, in the order of booking. next is where the list continues; nil: at its end.
func (s *sqlStore) MoneyIn(f MoneyFilter, most int) (rows []*Booking, next *Booking, err error) {
	l := listing[Booking]{text: selectBooking, order: "e.ts_us, e.id", scan: scanBooking, matches: f.matches,
		place: func(b *Booking) []any { return []any{b.AtUs, b.Entry} }}
	if f.Behind != (MoneyPlace{}) {
		l.behind = []any{f.Behind.AtUs, f.Behind.Entry}
	}
	if f.Account == 0 {
		l.add("e.kind = ", f.Kind, true)
		l.within("e.ts_us", f.FromUs, f.ToUs)
		return l.readPage(s, most)
	}
	l.text = strings.Replace(selectBooking, "entry e CROSS JOIN posting p", "posting p CROSS JOIN entry e", 1)
	l.order, l.place = "p.entry", func(b *Booking) []any { return []any{b.Entry} }
	if l.behind != nil {
		l.behind = l.behind[1:]
	}
	l.add("p.moved <> 0 AND p.account = ", f.Account, true)
	return l.readPage(s, most)
}

func (f *MoneyFilter) matches(b *Booking) bool {
	return b.Kind == f.Kind && (f.Currency == 0 || b.Currency == f.Currency) && (f.FromUs == 0 || b.AtUs >= f.FromUs) &&
		(f.ToUs == 0 || b.AtUs < f.ToUs)
}

// schema15 was added in version 15: the movement of all balances on each day.
const schema15 = `
-- The sum of the postings to customers by the UTC day of their entry, counted from 1970-01-01.
CREATE TABLE balance_day(day {I64} NOT NULL, currency {I64} NOT NULL, amount {I64} NOT NULL, PRIMARY KEY(day, currency)) {KEYED};
`

const (
	sqlPostedDays = `SELECT e.ts_us / 86400000000 AS day, p.currency, CAST(sum(p.amount) AS {I64}) AS amount FROM entry e
		JOIN posting p ON p.entry = e.id AND p.book = 'customer' GROUP BY 1, 2`
	// sqlAllDays adds up the postings of before version 15, and of a backup.
	sqlAllDays = "INSERT INTO balance_day(day, currency, amount) " + sqlPostedDays + ";"
	sqlAddDays = `INSERT INTO balance_day(day, currency, amount) SELECT ts_us / 86400000000, CAST($2 AS {I64}), CAST($3 AS {I64}) FROM entry
		WHERE id = $1 ON CONFLICT(day, currency) DO UPDATE SET amount = balance_day.amount + excluded.amount`
)

// dayMove is the amount by which an entry moves all balances of a currency.
type dayMove struct {
	currency money.Currency
	entry    int64
}

// movesOn adds a posting to the sums of the day of its entry, when t ends.
func (t *tx) movesOn(entry int64, c money.Currency, n money.Nano) {
	if t.days == nil {
		t.days = map[dayMove]money.Nano{}
	}
	t.days[dayMove{c, entry}] += n
}

// writeDays writes the sums of movesOn. All writers lock the rows in the same order.
func (t *tx) writeDays() error {
	moves := slices.SortedFunc(maps.Keys(t.days), func(a, b dayMove) int {
		return cmp.Or(cmp.Compare(a.currency, b.currency), cmp.Compare(a.entry, b.entry))
	})
	for _, m := range moves {
		if _, err := t.exec(sqlAddDays, m.entry, int64(m.currency), int64(t.days[m])); err != nil {
			return err
		}
	}
	return nil
}

// countBalanceDays checks the sums by day against the postings.
func (r *Recount) countBalanceDays(q *Query) error {
	return r.none(q, "on day %d balances moved by %[3]s %[2]s, their postings add up to %[4]s",
		[]any{new(int64), new(money.Currency), new(money.Nano), new(money.Nano)}, `SELECT day, currency, CAST(sum(amount) AS {I64}),
		CAST(sum(posted) AS {I64}) FROM (SELECT day, currency, amount, 0 AS posted FROM balance_day
		UNION ALL SELECT day, currency, 0, amount FROM (`+sqlPostedDays+`) AS x) AS b
		GROUP BY day, currency HAVING sum(amount) <> sum(posted)`)
}

// LiabilityDay is the balance of all accounts at the end of a day.
type LiabilityDay struct {
	Day      int32
	Balances money.Parts
}

// Liability is the balance of all accounts at the end of each day, the latest first, by the sums of days.
func (s *sqlStore) Liability(first, last int32) (days []LiabilityDay, err error) {
	err = s.Report(context.Background(), func(q *Query) error {
		sum, at := money.Parts{}, first
		days = nil
		to := func(day int32) {
			for ; at < day; at++ {
				days = append(days, LiabilityDay{at, sum})
			}
		}
		err := each3(q, func(day int32, c money.Currency, n money.Nano) {
			to(day)
			sum[money.PlaceOf(c)] += n
		}, "SELECT day, currency, amount FROM balance_day WHERE day <= $1 ORDER BY day", last)
		to(last + 1)
		slices.Reverse(days)
		return err
	})
	return days, err
}
