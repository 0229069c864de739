package billing

import (
	"database/sql"
	"farebox/billing/calendar"
	"farebox/billing/money"
	"fmt"
)

// Balance is what an account has, held or leased to nodes or not (addendum 17.1).
type Balance struct {
	USD, DIEM, Bundled Nano
	DIEMAllocation     Nano // granted for this UTC day
	HasDIEM            bool
	CanConsume         bool     // it is enough to be admitted
	Debt               Nano     // what it owes for earlier requests; until that is paid it cannot consume
	Next               Currency // that the next request draws on; 0: none
}

// Balance reads the balance of a key's account, with every charge of this node
// and what other nodes have reported.
func (l *Ledger) Balance(k *Key) (Balance, error) {
	a := k.Account
	l.showDays(a)
	var have money.Parts
	var b Balance
	day := l.today()
	err := l.report(func(r *query) error {
		if err := r.row("SELECT diem_daily FROM account WHERE no = $1", a.no).Scan(&b.DIEMAllocation); err != nil {
			return err
		}
		// The allowance of a day stands in no bucket before something draws on it.
		have[money.InDIEM] = b.DIEMAllocation
		if err := r.row(sqlDebtOf, a.no).Scan(&b.Debt); err != nil {
			return err
		}
		return r.each(func(rows *sql.Rows) error {
			var c Currency
			var granted, left Nano
			if err := rows.Scan(&c, &granted, &left); err != nil {
				return err
			}
			if have[money.PlaceOf(c)] = left; c == DIEM {
				b.DIEMAllocation = granted
			}
			return nil
		}, "SELECT currency, granted, avail + escrow FROM bucket WHERE account = $1 AND day IN (0, $2)", a.no, calendar.Date(day))
	})
	if err != nil {
		return Balance{}, fmt.Errorf("cannot read the balance of account %s: %w", a.ID, err)
	}
	b.DIEM, b.Bundled, b.USD = have[money.InDIEM], have[money.InBundled], have[money.InUSD]
	b.HasDIEM = b.DIEMAllocation > 0
	b.CanConsume = b.Debt == 0 && have.Total() > 0 && have.Total() >= Nano(l.floor.Load())
	for place, n := range have {
		if n > 0 {
			b.Next = money.SpendOrder[place]
			break
		}
	}
	return b, nil
}
