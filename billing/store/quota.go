package store

import (
	"cmp"
	"database/sql"
	"maps"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// Limits of keys on a shared store. What a key may spend in a period is
// divided like money: into what is spent (the sum of usage_day without key_back, so
// that it cannot drift), what nodes have leased (quota) and the room that is left.

// quotaID is one limit of a key in a period: USD (with BUNDLED_CREDITS) or DIEM.
type quotaID struct {
	key      int64
	period   int32
	currency money.Currency
}

func compareQuotas(a, b quotaID) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.period, b.period), cmp.Compare(a.currency, b.currency))
}

// firstDayNumber tells numbers of days, which begin in 1997, from numbers of
// months: both are periods of a limit, 0 is its whole life.
const firstDayNumber = 10_000

// periodHas says whether a day lies in the period of a number.
func periodHas(period, day int32) bool {
	switch {
	case period == 0:
		return true
	case period < firstDayNumber:
		return calendar.MonthOf(day) == period
	}
	return day == period
}

// periodDates are the first and last date of a period.
func periodDates(period int32) (first, last int64) {
	switch {
	case period == 0:
		return 0, 99999999
	case period < firstDayNumber:
		return calendar.Date(calendar.FirstDay(period)), calendar.Date(calendar.FirstDay(period+1) - 1)
	}
	return calendar.Date(period), calendar.Date(period)
}

// kindOfPeriod is the kind that a number belongs to.
func kindOfPeriod(period int32) Period {
	switch {
	case period == 0:
		return Lifetime
	case period < firstDayNumber:
		return Month
	}
	return Epoch
}

// quotaRow is where a limit is.
type quotaRow struct {
	limit         *money.Nano
	used          money.Nano
	lease, others money.Nano
}

// room is what is left for new leases.
func (r *quotaRow) room() money.Nano {
	if r.limit == nil {
		return money.MaxCredit
	}
	return max(0, *r.limit-r.used-r.lease-r.others)
}

// keyLimit is what the store says about a key's limits.
type keyLimit struct {
	account   uint32
	kind      Period
	usd, diem *money.Nano
}

const (
	sqlKeyLimits = "SELECT no, account, limit_period, limit_usd, limit_diem FROM api_key WHERE no = ANY($1) ORDER BY no"
	sqlQuotas    = `SELECT q.api_key, q.period, q.currency, q.node, q.amount FROM {FROM api_key i, period i}
		JOIN quota q ON q.api_key = u.api_key AND q.period = u.period ORDER BY q.api_key, q.period, q.currency, q.node`
	sqlQuotaUsed = `SELECT u.api_key, u.period, CASE WHEN d.currency = 2 THEN 2 ELSE 1 END, ` + sumAmounts + `
		FROM {FROM api_key i, period i, account i, first i, last i}
		JOIN ` + usedDays + ` ON d.account = u.account AND d.api_key = u.api_key AND d.day BETWEEN u.first AND u.last
		GROUP BY u.api_key, u.period, CASE WHEN d.currency = 2 THEN 2 ELSE 1 END`
	sqlAddQuota = `INSERT INTO quota(node, api_key, currency, period, amount) {ROWS iiiii}
		ON CONFLICT(api_key, period, currency, node) DO UPDATE SET amount = quota.amount + excluded.amount`
	sqlTakeQuota = `UPDATE quota SET amount = amount - u.taken FROM {FROM node i, api_key i, currency i, period i, taken i}
		WHERE quota.node = u.node AND quota.api_key = u.api_key AND quota.currency = u.currency AND quota.period = u.period`
	sqlEndQuota = `DELETE FROM quota WHERE amount = 0 AND (api_key, period, currency, node) IN
		(SELECT u.api_key, u.period, u.currency, u.node FROM {FROM node i, api_key i, currency i, period i})`
)

// keyLimits reads the limits of keys; with lock they stay as they are, and
// nobody else grants of them, before t ends.
func (q *Query) keyLimits(keys []int64, lock bool) (map[int64]*keyLimit, error) {
	found := map[int64]*keyLimit{}
	if len(keys) == 0 {
		return found, nil
	}
	text := sqlKeyLimits
	if lock {
		text += " FOR UPDATE"
	}
	return found, q.Each(func(rows *sql.Rows) error {
		var no int64
		k := &keyLimit{}
		err := rows.Scan(&no, &k.account, &k.kind, &k.usd, &k.diem)
		found[no] = k
		return err
	}, text, keys)
}

// quotas reads where limits are. Leases are read before what is spent: a batch
// that is applied in between moves from one to the other, and must not be
// missed in both. With lock, none is applied in between.
func (q *Query) quotas(ids []quotaID, keys map[int64]*keyLimit, lock bool) (map[quotaID]*quotaRow, error) {
	found := make(map[quotaID]*quotaRow, len(ids))
	var no, period, account, first, last []int64
	seen := map[quotaID]bool{}
	for _, id := range ids {
		k := keys[id.key]
		if k == nil {
			continue
		}
		row := &quotaRow{limit: k.usd}
		if id.currency == money.DIEM {
			row.limit = k.diem
		}
		found[id] = row
		if both := (quotaID{key: id.key, period: id.period}); !seen[both] {
			seen[both] = true
			from, to := periodDates(id.period)
			no, period, account = append(no, id.key), append(period, int64(id.period)),
				append(account, int64(k.account))
			first, last = append(first, from), append(last, to)
		}
	}
	if len(no) == 0 {
		return found, nil
	}
	text := sqlQuotas
	if lock {
		text += " FOR UPDATE OF q"
	}
	err := q.Each(func(rows *sql.Rows) error {
		var id quotaID
		var node uint32
		var amount money.Nano
		err := rows.Scan(&id.key, &id.period, &id.currency, &node, &amount)
		if row := found[id]; row != nil && node == q.s.node {
			row.lease += amount
		} else if row != nil {
			row.others += amount
		}
		return err
	}, text, no, period)
	if err != nil {
		return nil, err
	}
	return found, q.Each(func(rows *sql.Rows) error {
		var id quotaID
		var used money.Nano
		err := rows.Scan(&id.key, &id.period, &id.currency, &used)
		if row := found[id]; row != nil {
			row.used = used
		}
		return err
	}, sqlQuotaUsed, no, period, account, first, last)
}

// moveQuota is what changes in a lease of a limit.
type moveQuota struct {
	quotaID
	taken money.Nano // negative: granted
	ends  bool       // nothing is left of the lease
}

func (t *tx) moveQuotas(list []moveQuota) error {
	add, take, end := t.bulk(sqlAddQuota), t.bulk(sqlTakeQuota), t.bulk(sqlEndQuota)
	for i := range list {
		m := &list[i]
		switch {
		case m.taken < 0:
			add.add(t.s.node, m.key, int64(m.currency), m.period, -int64(m.taken))
		case m.taken > 0:
			take.add(t.s.node, m.key, int64(m.currency), m.period, int64(m.taken))
			if m.ends {
				end.add(t.s.node, m.key, int64(m.currency), m.period)
			}
		}
	}
	return t.flush(add, take, end)
}

// spendQuotas takes what keys were charged out of this node's leases of their
// limits. What a lease lacks counts as spent all the same.
func (t *tx) spendQuotas(charges []keyCharge) error {
	limited := map[int64]bool{}
	err := t.Each(func(rows *sql.Rows) error {
		var key int64
		err := rows.Scan(&key)
		limited[key] = true
		return err
	}, "SELECT DISTINCT api_key FROM quota WHERE node = $1", t.s.node)
	if err != nil || len(limited) == 0 {
		return err
	}
	byKey := map[int64][]*keyCharge{}
	for i := range charges {
		if c := &charges[i]; limited[int64(c.key)] {
			byKey[int64(c.key)] = append(byKey[int64(c.key)], c)
		}
	}
	if len(byKey) == 0 {
		return nil
	}
	var moves []moveQuota
	err = t.Each(func(rows *sql.Rows) error {
		var m moveQuota
		var amount money.Nano
		if err := rows.Scan(&m.key, &m.period, &m.currency, &amount); err != nil {
			return err
		}
		for _, c := range byKey[m.key] {
			left := &c.usd
			if m.currency == money.DIEM {
				left = &c.diem
			}
			if periodHas(m.period, c.day) {
				n := min(amount-m.taken, *left)
				m.taken += n
				*left -= n
			}
		}
		m.ends = m.taken == amount
		moves = append(moves, m)
		return nil
	}, `SELECT api_key, period, currency, amount FROM quota WHERE node = $1 AND api_key = ANY($2)
		ORDER BY api_key, period, currency FOR UPDATE`, t.s.node, slices.Sorted(maps.Keys(byKey)))
	if err != nil {
		return err
	}
	return t.moveQuotas(moves)
}
