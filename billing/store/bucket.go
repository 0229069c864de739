package store

import (
	"cmp"
	"database/sql"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/money"
)

// Leases in the store. A bucket's escrow is the sum of its leases; a lease is
// what its node may still spend. Whoever moves money between the two holds the
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

// bucketRow is what matters here of a bucket, and this node's lease on it.
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

// lock is buckets for those that t is about to change: nobody else moves money
// in them before t ends. The leases are read when the buckets are locked: a
// statement that waits for a lock gives what it had found before of other rows.
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
	has := map[uint32]bool{}
	accounts := make([]int64, len(ids))
	for i, id := range ids {
		accounts[i] = int64(id.account)
	}
	err = t.Each(func(rows *sql.Rows) error {
		var no uint32
		err := rows.Scan(&no)
		has[no] = true
		return err
	}, "SELECT no FROM account WHERE diem_daily > 0 AND no = ANY($1)", accounts)
	for _, id := range ids {
		if has[id.account] {
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

// spendLeases takes charges out of this node's leases. What a lease lacks,
// because it was taken back meanwhile, comes from the bucket; what that lacks,
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
