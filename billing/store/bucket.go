package store

import (
	"cmp"
	"database/sql"
	"maps"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// Leases in the store. A bucket's escrow is the sum of its leases; a lease is
// money that its node may still spend. Moving money between the two takes a lock on the
// bucket's row. A node's operations on its leases, its heartbeat and the taking
// back of its leases hold the node's row; the charges of a batch only the rows
// of its cursor and buckets, so that no grant waits for a long batch of others.

// placeID is one bucket.
type placeID struct {
	account  uint32
	currency money.Currency
	date     int64
}

func comparePlaces(a, b placeID) int {
	return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.currency, b.currency), cmp.Compare(a.date, b.date))
}

// bucketRow has the sums of a bucket that leases change, and this node's lease on it.
type bucketRow struct {
	avail, escrow, lease money.Nano
	debt                 money.Nano // of the account; only read by buckets
}

// places are arrays of bucket numbers for a statement.
func places(ids []placeID) []any {
	a, c, d := make([]int64, len(ids)), make([]int64, len(ids)), make([]int64, len(ids))
	for i, id := range ids {
		a[i], c[i], d[i] = int64(id.account), int64(id.currency), id.date
	}
	return []any{a, c, d}
}

const (
	sqlBuckets = `SELECT b.account, b.currency, b.day, b.avail, b.escrow FROM {FROM account i, currency i, day i}
		JOIN bucket b ON b.account = u.account AND b.currency = u.currency AND b.day = u.day
		ORDER BY b.account, b.currency, b.day`
	sqlLockBuckets = sqlBuckets + " FOR UPDATE OF b"
	sqlFunds       = `SELECT b.account, b.currency, b.day, b.avail, b.escrow, coalesce(l.amount, 0),
		coalesce((SELECT d.incurred - d.paid FROM debt d WHERE d.account = u.account), 0) FROM {FROM account i, currency i, day i}
		JOIN bucket b ON b.account = u.account AND b.currency = u.currency AND b.day = u.day
		LEFT JOIN lease l ON l.account = u.account AND l.currency = u.currency AND l.day = u.day AND l.node = $4`
	sqlLeases = `SELECT l.account, l.currency, l.day, l.amount FROM {FROM account i, currency i, day i}
		JOIN lease l ON l.account = u.account AND l.currency = u.currency AND l.day = u.day
		WHERE l.node = $4 ORDER BY l.account, l.currency, l.day`
	sqlMoveBuckets = `UPDATE bucket SET avail = avail + u.to_avail, escrow = escrow + u.to_escrow, spent = spent + u.to_spent
		FROM {FROM account i, currency i, day i, to_avail i, to_escrow i, to_spent i}
		WHERE bucket.account = u.account AND bucket.currency = u.currency AND bucket.day = u.day`
	sqlAddLease = `INSERT INTO lease(node, account, currency, day, amount) {ROWS iiiii}
		ON CONFLICT(account, currency, day, node) DO UPDATE SET amount = lease.amount + excluded.amount`
	sqlTakeLease = `UPDATE lease SET amount = amount - u.taken FROM {FROM node i, account i, currency i, day i, taken i}
		WHERE lease.node = u.node AND lease.account = u.account AND lease.currency = u.currency AND lease.day = u.day`
	sqlEndLease = `DELETE FROM lease WHERE amount = 0 AND (account, currency, day, node) IN
		(SELECT u.account, u.currency, u.day, u.node FROM {FROM node i, account i, currency i, day i})`
)

// buckets reads buckets and this node's leases on them.
func (q *Query) buckets(ids []placeID) (map[placeID]*bucketRow, error) {
	found := make(map[placeID]*bucketRow, len(ids))
	return found, q.Each(func(rows *sql.Rows) error {
		var id placeID
		b := &bucketRow{}
		err := rows.Scan(&id.account, &id.currency, &id.date, &b.avail, &b.escrow, &b.lease, &b.debt)
		found[id] = b
		return err
	}, sqlFunds, append(places(ids), q.s.node)...)
}

// lock is buckets for those that t is about to change: no other transaction moves money
// in them before t ends. The leases are read when the buckets are locked: a
// statement that waits for a lock returns its earlier state of other rows.
func (t *tx) lock(ids []placeID) (map[placeID]*bucketRow, error) {
	found := make(map[placeID]*bucketRow, len(ids))
	err := t.Each(func(rows *sql.Rows) error {
		var id placeID
		b := &bucketRow{}
		err := rows.Scan(&id.account, &id.currency, &id.date, &b.avail, &b.escrow)
		found[id] = b
		return err
	}, sqlLockBuckets, places(ids)...)
	if err != nil {
		return nil, err
	}
	return found, t.Each(func(rows *sql.Rows) error {
		var id placeID
		var amount money.Nano
		err := rows.Scan(&id.account, &id.currency, &id.date, &amount)
		if b := found[id]; b != nil {
			b.lease = amount
		}
		return err
	}, sqlLeases, append(places(ids), t.s.node)...)
}

// lockBuckets locks buckets in order, after those of DIEM have been made that
// nothing has drawn on yet.
func (t *tx) lockBuckets(ids []placeID, nowUs int64) (map[placeID]*bucketRow, error) {
	slices.SortFunc(ids, comparePlaces)
	ids = slices.Compact(ids)
	found, err := t.lock(ids)
	if err != nil {
		return nil, err
	}
	var missing []placeID
	for _, id := range ids {
		if id.currency == money.DIEM && found[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	if missing, err = t.allowed(missing); err != nil || len(missing) == 0 {
		return found, err
	}
	for _, id := range missing {
		if err := t.allow(id.account, calendar.DayOfDate(id.date), nowUs); err != nil {
			return nil, err
		}
	}
	more, err := t.lock(missing)
	for id, b := range more {
		found[id] = b
	}
	return found, err
}

// allowed leaves those whose account has a daily allowance.
func (t *tx) allowed(ids []placeID) (list []placeID, err error) {
	accounts := make([]int64, len(ids))
	for i, id := range ids {
		accounts[i] = int64(id.account)
	}
	has, err := values[uint32](&t.Query,
		"SELECT no FROM account WHERE diem_daily > 0 AND no = ANY($1) ORDER BY no", accounts)
	for _, id := range ids {
		if _, found := slices.BinarySearch(has, id.account); found {
			list = append(list, id)
		}
	}
	return list, err
}

// move is one bucket's part of a transaction, in changes of its columns.
type move struct {
	placeID
	avail, escrow, spent money.Nano
	taken                money.Nano // out of this node's lease; negative: into it
	ends                 bool       // nothing is left of the lease
}

// moveMoney writes moves. The buckets are locked.
func (t *tx) moveMoney(list []move) error {
	buckets, add, take, end := t.bulk(sqlMoveBuckets), t.bulk(sqlAddLease), t.bulk(sqlTakeLease), t.bulk(sqlEndLease)
	for i := range list {
		m := &list[i]
		if m.avail != 0 || m.escrow != 0 || m.spent != 0 {
			buckets.add(m.account, int64(m.currency), m.date, int64(m.avail), int64(m.escrow), int64(m.spent))
		}
		switch {
		case m.taken < 0:
			add.add(t.s.node, m.account, int64(m.currency), m.date, -int64(m.taken))
		case m.taken > 0:
			take.add(t.s.node, m.account, int64(m.currency), m.date, int64(m.taken))
			if m.ends {
				end.add(t.s.node, m.account, int64(m.currency), m.date)
			}
		}
	}
	return t.flush(buckets, add, take, end)
}

// spendLeases takes charges out of this node's leases. Money that a lease lacks,
// because it was taken back meanwhile, comes from the bucket; money that the bucket lacks,
// too, is late: the house pays.
func (t *tx) spendLeases(c *charged, nowUs int64) error {
	slices.SortFunc(c.list, func(a, b charge) int { return comparePlaces(a.id(), b.id()) })
	ids := make([]placeID, len(c.list))
	for i := range c.list {
		ids[i] = c.list[i].id()
	}
	found, err := t.lockBuckets(ids, nowUs)
	if err != nil {
		return err
	}
	moves := make([]move, 0, len(c.list))
	for i := range c.list {
		e := &c.list[i]
		b := found[e.id()]
		if b == nil {
			e.late = e.amount
			continue
		}
		leased := min(b.lease, e.amount)
		free := min(b.avail, e.amount-leased)
		e.late = e.amount - leased - free
		moves = append(moves, move{placeID: e.id(), avail: -free, escrow: -leased, spent: leased + free, taken: leased,
			ends: leased == b.lease})
	}
	if err := t.moveMoney(moves); err != nil {
		return err
	}
	return t.spendQuotas(c.keys)
}

func (c *charge) id() placeID { return placeID{c.account, money.SpendOrder[c.place], c.date()} }

// Limits of keys on a shared store. A key's limit in a period is divided like money:
// into the spent part (the sum of usage_day without key_back, so that it cannot
// drift), the leases of nodes (quota) and the room that is left.

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

// room is the part that can still be leased.
func (r *quotaRow) room() money.Nano {
	if r.limit == nil {
		return money.MaxCredit
	}
	return max(0, *r.limit-r.used-r.lease-r.others)
}

// keyLimit has the limits of a key.
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
// no other transaction grants of them, before t ends.
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
		var number int64
		k := &keyLimit{}
		err := rows.Scan(&number, &k.account, &k.kind, &k.usd, &k.diem)
		found[number] = k
		return err
	}, text, keys)
}

// quotas reads where limits are. Leases are read before spent parts: a batch
// that is applied in between moves from one to the other, and must not be
// missed in both. With lock, none is applied in between.
func (q *Query) quotas(ids []quotaID, keys map[int64]*keyLimit, lock bool) (map[quotaID]*quotaRow, error) {
	found := make(map[quotaID]*quotaRow, len(ids))
	var numbers, period, account, first, last []int64
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
			numbers, period, account = append(numbers, id.key), append(period, int64(id.period)),
				append(account, int64(k.account))
			first, last = append(first, from), append(last, to)
		}
	}
	if len(numbers) == 0 {
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
	}, text, numbers, period)
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
	}, sqlQuotaUsed, numbers, period, account, first, last)
}

// moveQuota is a change of a lease of a limit.
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

// spendQuotas takes the charges of keys out of this node's leases of their
// limits. The part that a lease lacks counts as spent all the same.
func (t *tx) spendQuotas(charges []keyCharge) error {
	limited, err := values[int64](&t.Query, "SELECT DISTINCT api_key FROM quota WHERE node = $1 ORDER BY api_key", t.s.node)
	if err != nil || len(limited) == 0 {
		return err
	}
	byKey := map[int64][]*keyCharge{}
	for i := range charges {
		c := &charges[i]
		if _, found := slices.BinarySearch(limited, int64(c.key)); found {
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
