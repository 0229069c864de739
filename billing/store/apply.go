package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Statements of the projection.
const (
	sqlCharge = "UPDATE bucket SET avail = avail - $4, spent = spent + $4 WHERE account = $1 AND currency = $2 AND " +
		"day = $3"
	sqlHousePosting = "INSERT INTO posting(entry, book, account, currency, amount) {ROWS itiii}"
	sqlUsageDay     = "INSERT INTO usage_day AS d" + sqlAddDay
	sqlUsageMoved   = "INSERT INTO usage_moved AS d" + sqlAddDay
	sqlAddDay       = `(account, api_key, day, model, upstream, currency, kind, requests, units, amount, last_us) {ROWS iiiiiiiiiii}
		ON CONFLICT(account, api_key, day, model, upstream, currency, kind) DO UPDATE SET requests = d.requests + excluded.requests,
		units = d.units + excluded.units, amount = d.amount + excluded.amount,
		last_us = CASE WHEN excluded.last_us > d.last_us THEN excluded.last_us ELSE d.last_us END`
	sqlProgress = `INSERT INTO open_progress(node, hold, seq, record) {ROWS iiib}
		ON CONFLICT(node, hold) DO UPDATE SET seq = excluded.seq, record = excluded.record`
	sqlResolved = "DELETE FROM open_progress WHERE node = $1 AND hold = $2"
)

// Applied is how far this node's journal has been applied.
func (s *sqlStore) Applied(k Sink) (uint64, error) {
	seq, err := value[uint64](s, "SELECT seq FROM applied WHERE node = $1 AND sink = $2", s.node, string(k))
	return seq, noRow(err)
}

// Apply books a batch in one transaction, unless its cursor says that an
// earlier try did, whose answer was lost.
func (s *sqlStore) Apply(b *Batch) error {
	b.sort()
	return s.write(func(t *tx) error {
		if done, err := t.advance(ToLedger, b.First, b.Last); done || err != nil {
			return err
		}
		if err := t.applyProgress(b); err != nil {
			return err
		}
		if err := t.lockJobs(b); err != nil {
			return err
		}
		if err := t.applyCharges(b); err != nil {
			return err
		}
		return t.applyPayments(b)
	})
}

// advance moves the cursor of a sink over the records first to last. done says
// that it is there already.
func (t *tx) advance(k Sink, first, last uint64) (done bool, err error) {
	var seq uint64
	var inc uint32
	err = t.Row("SELECT seq, inc FROM applied WHERE node = $1 AND sink = $2 {LOCK}", t.s.node, string(k)).Scan(&seq,
		&inc)
	switch {
	case err != nil:
		return false, noRow(err)
	case inc != t.s.inc:
		return false, ErrFenced
	case seq >= last:
		return true, nil
	case seq != first-1:
		return false, fmt.Errorf("the cursor %s is at record %d, the batch is %d to %d", k, seq, first, last)
	}
	_, err = t.exec("UPDATE applied SET seq = $3 WHERE node = $1 AND sink = $2", t.s.node, string(k), last)
	return false, err
}

// applyCharges writes daily usage, balances and double entry of the batch.
func (t *tx) applyCharges(b *Batch) error {
	if len(b.Rollups) == 0 {
		return nil
	}
	c, err := t.applyDays(b)
	if err != nil {
		return err
	}
	var entry int64
	err = t.Row("INSERT INTO entry(ts_us, kind, seq_first, seq_last, node) VALUES($1, 'CHARGE', $2, $3, $4) "+
		"RETURNING id", b.NowUs, b.First, b.Last, t.s.node).Scan(&entry)
	if err != nil {
		return err
	}
	spend := t.spend
	if t.s.shared {
		spend = t.spendLeases
	}
	if err := spend(c, b.NowUs); err != nil {
		return err
	}
	if err := t.payJobs(b, c); err != nil {
		return err
	}
	if err := t.postCharges(entry, true, c); err != nil {
		return err
	}
	t.waive(entry, b, c.list)
	return t.postHouse(entry, b, c)
}

// applyPayments pays debts with the payments of the batch. On a shared store new debts are
// paid here, too, from money that is not leased.
func (t *tx) applyPayments(b *Batch) error {
	if !t.s.shared {
		return t.payDebts(b)
	}
	if len(b.Payments) == 0 && len(b.Debt) == 0 {
		return nil
	}
	if err := t.handIn(b); err != nil {
		return err
	}
	days := map[uint32][]int32{}
	for account := range b.Debt {
		days[account] = []int32{b.Day}
	}
	for id := range b.Payments {
		if days[id.Account] == nil {
			days[id.Account] = []int32{b.Day}
		}
		if id.Place == money.InDIEM && id.Day != b.Day {
			days[id.Account] = append(days[id.Account], id.Day)
		}
	}
	return t.collect(days, b.NowUs)
}

// charge is the amount that a batch takes out of one bucket.
type charge struct {
	account uint32
	place   int
	day     int32 // of DIEM
	amount  money.Nano
	late    money.Nano // of it, the part that neither a lease nor the bucket had: the house waives it
	noted   money.Nano // of that, the cost of jobs (payJobs)
}

func (c *charge) date() int64 {
	if c.place != money.InDIEM {
		return 0
	}
	return calendar.Date(c.day)
}

// keyCharge is the use of a key's limits by a batch on one day.
type keyCharge struct {
	key       uint32
	day       int32
	usd, diem money.Nano
}

// charged are the charges of a batch, in the order of the buckets.
type charged struct {
	list    []charge
	keys    []keyCharge
	revenue money.Parts
}

// applyDays writes the daily usage and gives its cost.
func (t *tx) applyDays(b *Batch) (*charged, error) {
	c := &charged{}
	from := 0 // first charge of the account
	for i := range b.Rollups {
		u := &b.Rollups[i]
		if len(c.list) > from && c.list[from].account != u.Account {
			from = len(c.list)
		}
		var total money.Parts
		for s := range b.Each(u) {
			total[s.Place] += s.Amount
		}
		for place, n := range total {
			if n != 0 || place == money.InUSD && b.Debt[u.Account] != 0 {
				c.add(from, u.Account, place, u.Day, n)
			}
		}
		c.addKey(u, &total)
	}
	days := t.bulk(sqlUsageDay)
	b.addDays(days)
	return c, days.flush()
}

// addDays adds the rows of daily usage.
func (b *Batch) addDays(days *bulk) {
	for i := range b.Rollups {
		u := &b.Rollups[i]
		for s := range b.Each(u) {
			days.add(u.Account, u.Key, calendar.Date(u.Day), u.model, u.upstream,
				int64(money.SpendOrder[s.Place]), int64(s.kind), s.requests, s.units, int64(s.Amount), u.lastUs)
		}
	}
}

// add counts a charge. A charge of zero represents a cost that became debt only.
func (c *charged) add(from int, account uint32, place int, day int32, n money.Nano) {
	if place != money.InDIEM {
		day = 0
	}
	c.revenue[place] += n
	for i := from; i < len(c.list); i++ {
		if e := &c.list[i]; e.place == place && e.day == day {
			e.amount += n
			return
		}
	}
	c.list = append(c.list, charge{account: account, place: place, day: day, amount: n})
}

func (c *charged) addKey(u *Rollup, total *money.Parts) {
	diem, usd := total.ByLimit()
	if n := len(c.keys); n > 0 && c.keys[n-1].key == u.Key && c.keys[n-1].day == u.Day {
		c.keys[n-1].usd += usd
		c.keys[n-1].diem += diem
		return
	}
	c.keys = append(c.keys, keyCharge{u.Key, u.Day, usd, diem})
}

// spend takes charges from balances: all of them are this process's own.
func (t *tx) spend(c *charged, nowUs int64) error {
	for i := range c.list {
		e := &c.list[i]
		currency, allowed := money.SpendOrder[e.place], false
		for e.amount != 0 {
			res, err := t.exec(sqlCharge, e.account, int64(currency), e.date(), int64(e.amount))
			if err != nil {
				return fmt.Errorf("cannot charge %s %s to account %d: %w", e.amount, currency, e.account, err)
			}
			if rows, _ := res.RowsAffected(); rows == 1 {
				break
			}
			if e.place != money.InDIEM || allowed {
				return fmt.Errorf("cannot charge %s %s to account %d: it has no such balance", e.amount, currency,
					e.account)
			}
			// The first charge to this day's allowance.
			allowed = true
			if err := t.allow(e.account, e.day, nowUs); err != nil {
				return err
			}
		}
	}
	return nil
}

// postCharges books the customers' side: one posting an account and currency.
func (t *tx) postCharges(entry int64, charges bool, c *charged) error {
	var postings []posting
	for i := range c.list {
		e := &c.list[i]
		last := len(postings) - 1
		for last >= 0 && postings[last].account == e.account && postings[last].place != e.place {
			last--
		}
		if last < 0 || postings[last].account != e.account {
			postings = append(postings, posting{account: e.account, place: e.place})
			last = len(postings) - 1
		}
		postings[last].amount -= e.amount - e.late
	}
	sortPostings(postings)
	return t.postCustomers(entry, charges, postings)
}

// postHouse books the other side: revenue, the debt of accounts, and the cost of late
// charges to the house, or shortfalls of before there was debt.
func (t *tx) postHouse(entry int64, b *Batch, c *charged) error {
	bulk := t.bulk(sqlHousePosting)
	revenue := c.revenue
	lost := func(book string, account uint32, currency money.Currency, n money.Nano) {
		t.pay(book, currency, -n)
		bulk.add(entry, book, account, int64(currency), -int64(n))
	}
	for _, account := range slices.Sorted(maps.Keys(b.Shortfall)) {
		n := b.Shortfall[account]
		revenue[money.InUSD] += n
		lost("shortfall", account, money.USD, n)
	}
	owed, err := t.owe(entry, bulk, b.Debt)
	if err == nil {
		err = t.oweFor(b.owing)
	}
	if err != nil {
		return err
	}
	revenue[money.InUSD] += owed
	late := map[uint32]*money.Parts{}
	for i := range c.list {
		if e := &c.list[i]; e.late > 0 {
			if late[e.account] == nil {
				late[e.account] = &money.Parts{}
			}
			late[e.account][e.place] += e.late
		}
	}
	for _, account := range slices.Sorted(maps.Keys(late)) {
		for place, n := range late[account] {
			if n != 0 {
				lost("late", account, money.SpendOrder[place], n)
			}
		}
	}
	t.postRevenue(entry, bulk, &revenue)
	return bulk.flush()
}

// postRevenue books the revenue of the house.
func (t *tx) postRevenue(entry int64, postings *bulk, revenue *money.Parts) {
	for place, n := range revenue {
		if n != 0 {
			t.pay("revenue", money.SpendOrder[place], n)
			postings.add(entry, "revenue", uint32(0), int64(money.SpendOrder[place]), int64(n))
		}
	}
}

func (t *tx) applyProgress(b *Batch) error {
	rows := t.bulk(sqlProgress)
	for _, hold := range slices.Sorted(maps.Keys(b.Progress)) {
		r := b.Progress[hold]
		data := make([]byte, journal.MaxRecord)
		rows.add(t.s.node, hold, r.Seq, data[:r.Put(data)])
	}
	if err := rows.flush(); err != nil {
		return err
	}
	for _, hold := range b.Resolved {
		if _, err := t.exec(sqlResolved, t.s.node, hold); err != nil {
			return err
		}
	}
	return nil
}

// OpenProgress gives the progress of this node's holds that are not resolved.
func (s *sqlStore) OpenProgress() (list []journal.Record, err error) {
	err = s.read(func(q *Query) error {
		list = nil
		return q.Each(func(rows *sql.Rows) error {
			var seq uint64
			var data []byte
			if err := rows.Scan(&seq, &data); err != nil {
				return err
			}
			var r journal.Record
			if r.Get(data, seq, s.before) == 0 {
				return errors.New("a row of open_progress is damaged")
			}
			list = append(list, r)
			return nil
		}, "SELECT seq, record FROM open_progress WHERE node = $1 ORDER BY hold", s.node)
	})
	return list, err
}
