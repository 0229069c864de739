package report

import (
	"database/sql"
	"fmt"

	"farebox/billing/calendar"
	"farebox/billing/money"
	"farebox/billing/store"
)

const sqlDebtOf = "SELECT CAST(coalesce(sum(incurred - paid), 0) AS {I64}) FROM debt WHERE account = $1"

// Balance is an account's money, held or leased to nodes or not (addendum 17.1).
type Balance struct {
	money.Amounts
	DIEMAllocation money.Nano // granted for this UTC day
	HasDIEM        bool
	CanConsume     bool           // it is enough to be admitted
	Debt           money.Nano     // owed for earlier requests; until it is paid, the account cannot consume
	Next           money.Currency // that the next request draws on; 0: none
}

// Balance reads the balance of the account, with every charge of this node
// and all charges that other nodes have reported.
func (a Account) Balance() (Balance, error) {
	a.Newest.Days()
	var have money.Parts
	var b Balance
	day := a.source.Today()
	err := a.read(func(q *store.Query) error {
		if err := q.Row("SELECT diem_daily FROM account WHERE no = $1", a.No).Scan(&b.DIEMAllocation); err != nil {
			return err
		}
		// The allowance of a day is in no bucket before something draws on it.
		have[money.InDIEM] = b.DIEMAllocation
		if err := q.Row(sqlDebtOf, a.No).Scan(&b.Debt); err != nil {
			return err
		}
		return q.Each(func(rows *sql.Rows) error {
			var c money.Currency
			var granted, left money.Nano
			if err := rows.Scan(&c, &granted, &left); err != nil {
				return err
			}
			if have[money.PlaceOf(c)] = left; c == money.DIEM {
				b.DIEMAllocation = granted
			}
			return nil
		}, "SELECT currency, granted, avail + escrow FROM bucket WHERE account = $1 AND day IN (0, $2)",
			a.No, calendar.Date(day))
	})
	if err != nil {
		return Balance{}, fmt.Errorf("cannot read the balance of account %s: %w", a.ID, err)
	}
	b.Amounts = have.Amounts()
	b.HasDIEM = b.DIEMAllocation > 0
	b.CanConsume = b.Debt == 0 && have.Total() > 0 && have.Total() >= a.source.Floor()
	for place, n := range have {
		if n > 0 {
			b.Next = money.SpendOrder[place]
			break
		}
	}
	return b, nil
}
