package store

import (
	"database/sql"
	"fmt"
	"reflect"
	"sync/atomic"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Recount adds up the store's books, each by itself.
func (s *sqlStore) Recount(pinned func()) (r *Recount, err error) {
	err = s.snapshot(s.dialect.long, func(q *Query) error {
		r, err = recountOn(q, pinned)
		return err
	})
	return r, err
}

// recounted is how far a recount is, in single requests.
type recounted struct{ done, all atomic.Int64 }

func (r *recounted) beginCount(q *Query) error {
	var all int64
	err := q.Row("SELECT CAST(coalesce(sum(requests), 0) AS {I64}) FROM usage_page").Scan(&all)
	r.done.Store(0)
	r.all.Store(all)
	return err
}

func (s *sqlStore) Recounted() (done, all int64) {
	return s.recounted.done.Load(), s.recounted.all.Load()
}

// recountOn is Recount within a transaction.
func recountOn(q *Query, pinned func()) (*Recount, error) {
	r := &Recount{Accounts: map[uint32]*AccountCount{}, jobs: map[jobAt]money.Parts{}}
	err := r.countAccounts(q) // the first read is the moment
	pinned()
	if err != nil {
		return nil, err
	}
	for _, count := range []func(*Query) error{r.countBuckets, r.countDebts, r.countPostings, r.countDays, r.countPages,
		r.countSums, r.countBalanceDays, r.countMoved, r.countLeases, r.countCursors, r.countFeed, r.countJobs, r.countPayments} {
		if err := count(q); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Recount also has SQLite look at its file: whether every row is in every index.
func (s *sqliteStore) Recount(pinned func()) (*Recount, error) {
	r, err := s.sqlStore.Recount(pinned)
	if err != nil {
		return nil, err
	}
	return r, s.read(func(q *Query) error {
		return q.Each(func(rows *sql.Rows) error {
			var found string
			err := rows.Scan(&found)
			if err == nil && found != "ok" {
				r.fault("the database file is damaged: %s", found)
			}
			return err
		}, "PRAGMA integrity_check(20)")
	})
}

// usagePrint is a sum of usage by account, key, model, upstream, day, currency and kind that
// is the same, but for one chance in 2^64 or so, only where all its parts are: each
// number counts times a factor that its place gives. So daily usage and single
// requests are compared in full without room for either.
type usagePrint uint64

func (p *usagePrint) add(id *rollupKey, place int, kind money.Kind, requests, units int64, amount money.Nano) {
	at := uint64(id.Account)<<32 | uint64(id.Key)
	at = mix(at) ^ uint64(id.model)<<32 ^ uint64(uint32(id.Day))
	at = mix(at) ^ uint64(id.upstream)<<32 ^ uint64(place)<<8 ^ uint64(kind)
	for _, n := range [...]int64{requests, units, int64(amount)} {
		at = mix(at)
		*p += usagePrint((at | 1) * uint64(n))
	}
}

// addRecord adds the usage of one record. Only charges are requests.
func (p *usagePrint) addRecord(r *journal.Record) {
	var s journal.Shares
	r.Spread(&s)
	id := keyOf(r)
	sign := r.Moved.Sign()
	for _, x := range s.All() {
		p.add(&id, int(x.Place), x.Kind, 0, sign*x.Units, money.Nano(sign)*x.Amount)
	}
	if r.Moved == journal.Charged {
		p.add(&id, s.First, s.Last, 1, 0, 0)
	}
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (r *Recount) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// none faults every row of a query that should give none; into is where its
// columns are read to, for the text of fault.
func (r *Recount) none(q *Query, fault string, into []any, text string) error {
	return q.Each(func(rows *sql.Rows) error {
		err := rows.Scan(into...)
		values := make([]any, len(into))
		for i, p := range into {
			values[i] = reflect.ValueOf(p).Elem().Interface()
		}
		r.fault(fault, values...)
		return err
	}, text)
}

func (r *Recount) countAccounts(q *Query) error {
	return q.Each(func(rows *sql.Rows) error {
		var number uint32
		err := rows.Scan(&number)
		r.Accounts[number] = &AccountCount{Avail: map[BucketID]money.Nano{}}
		return err
	}, "SELECT no FROM account")
}

// countBuckets also checks I1 and I2, which the schema promises.
func (r *Recount) countBuckets(q *Query) error {
	return q.Each(func(rows *sql.Rows) error {
		var number uint32
		var id BucketID
		var granted, avail, escrow, spent, expired money.Nano
		if err := rows.Scan(&number, &id.Currency, &id.Day, &granted, &avail, &escrow, &spent, &expired); err != nil {
			return err
		}
		if granted != avail+escrow+spent+expired || min(avail, escrow, spent, expired) < 0 {
			r.fault("bucket %d %s %d: granted %d, available %d, escrow %d, spent %d, expired %d", number, id.Currency,
				id.Day, granted, avail, escrow, spent, expired)
		}
		c := r.Accounts[number]
		if c == nil {
			r.fault("bucket %d %s %d belongs to no account", number, id.Currency, id.Day)
			return nil
		}
		c.Avail[id] = avail
		c.granted[money.PlaceOf(id.Currency)] += granted - expired
		c.Spent[money.PlaceOf(id.Currency)] += spent
		return nil
	}, "SELECT account, currency, day, granted, avail, escrow, spent, expired FROM bucket")
}

func (r *Recount) countDebts(q *Query) error {
	return each3(q, func(number uint32, incurred, paid money.Nano) {
		c := r.Accounts[number]
		if c == nil {
			r.fault("the debt of account %d, which does not exist", number)
			return
		}
		c.Incurred, c.Paid = incurred, paid
	}, "SELECT account, incurred, paid FROM debt")
}

func (r *Recount) countPostings(q *Query) error {
	return q.Each(func(rows *sql.Rows) error {
		var book, kind string
		var number uint32
		var currency money.Currency
		var sum money.Nano
		if err := rows.Scan(&book, &number, &currency, &kind, &sum); err != nil {
			return err
		}
		c := r.Accounts[number]
		switch {
		case c == nil:
			r.fault("postings to account %d, which does not exist", number)
		case book == "shortfall":
			c.short -= sum
		case book == debtBook && kind == "CHARGE":
			c.owed -= sum
		case book == debtBook && kind == paidEntry:
			c.paidOff += sum
		case book == debtBook:
			c.corrected -= sum
		case kind == "REFUND":
			c.credited[money.PlaceOf(currency)] += sum
			c.refunded[money.PlaceOf(currency)] += sum
		case kind == paidEntry:
			c.repaid[money.PlaceOf(currency)] -= sum
		case book == "late":
			c.late[money.PlaceOf(currency)] -= sum
		case kind == "CHARGE":
			c.posted[money.PlaceOf(currency)] -= sum
			r.Charged -= sum
		default:
			c.credited[money.PlaceOf(currency)] += sum
		}
		return nil
	}, `SELECT book, account, currency, kind, CAST(sum(amount) AS {I64}) FROM posting JOIN entry ON id = entry
		WHERE book IN ('customer', 'debt', 'shortfall', 'late') GROUP BY book, account, currency, kind`)
}

func (r *Recount) countDays(q *Query) error {
	return r.eachUsage(q, "usage_day", func(c *AccountCount, u *usageRow) {
		c.daily[u.place] += u.amount
		c.dailyCount += u.requests
		c.dailyPrint.add(&u.id, u.place, u.kind, u.requests, u.units, u.amount)
	})
}

// usageRow is a row of usage by day.
type usageRow struct {
	id              rollupKey
	place           int // of its currency
	kind            money.Kind
	requests, units int64
	amount          money.Nano
}

// eachUsage goes through a table of usage by day.
func (r *Recount) eachUsage(q *Query, table string, do func(c *AccountCount, u *usageRow)) error {
	return q.Each(func(rows *sql.Rows) error {
		var u usageRow
		var date int64
		var currency money.Currency
		if err := rows.Scan(&u.id.Account, &u.id.Key, &date, &u.id.model, &u.id.upstream, &currency, &u.kind, &u.requests,
			&u.units, &u.amount); err != nil {
			return err
		}
		u.id.Day, u.place = calendar.DayOfDate(date), money.PlaceOf(currency)
		if c := r.Accounts[u.id.Account]; c != nil {
			do(c, &u)
		} else {
			r.fault("%s of account %d, which does not exist", table, u.id.Account)
		}
		return nil
	}, "SELECT account, api_key, day, model, upstream, currency, kind, requests, units, amount FROM "+table)
}

// countPages opens every page and checks that no record is there twice (I8),
// and the figures of listings: times and numbers of entries of pages and hours.
func (r *Recount) countPages(q *Query) error {
	if err := q.s.recounted.beginCount(q); err != nil {
		return err
	}
	last := map[recountSource]uint64{}
	hours := map[recountHour]journal.Entries{}
	err := q.Each(func(rows *sql.Rows) error {
		p := journal.Page{}
		n := &p.Entries
		if err := rows.Scan(pointers([]any{&p.Account, &p.Node, &p.First, &p.Last, &p.FirstUs, &p.LastUs, &p.Requests, &p.Data},
			n[:])...); err != nil {
			return err
		}
		c := r.Accounts[p.Account]
		if c == nil {
			r.fault("usage of account %d, which does not exist", p.Account)
			return nil
		}
		at, found := recountSource{p.Account, p.Node}, journal.Page{}
		q.s.recounted.done.Add(int64(p.Requests))
		err := p.Each(q.s.before, func(rec *journal.Record) error {
			if rec.Seq <= last[at] {
				r.fault("account %d: record %d of node %d is in the usage twice", p.Account, rec.Seq, p.Node)
			}
			last[at] = rec.Seq
			if (p.Node == storeNode) != (rec.Moved != journal.Charged) {
				r.fault("account %d: record %d of node %d is not a charge, or is a charge of the store itself", p.Account, rec.Seq,
					p.Node)
			}
			if rec.Moved != journal.Charged {
				found.Note(rec)
				c.addMoved(rec)
				return nil
			}
			if rec.Flags&journal.FlagJob != 0 {
				r.jobs[jobAt{p.Node, rec.Hold}] = rec.Amounts
			}
			found.Note(rec)
			c.detail.Add(&rec.Amounts)
			c.detailShort += rec.Shortfall
			c.detailOwed += rec.Debt
			c.detailCount++
			c.detailPrint.addRecord(rec)
			r.Requests++
			return nil
		})
		if found.Entries != p.Entries || found.FirstUs != p.FirstUs || found.LastUs != p.LastUs ||
			journal.HourOf(p.FirstUs) != journal.HourOf(p.LastUs) {
			r.fault("account %d: the page of node %d at record %d has %v entries from %d to %d, its row says %v from "+
				"%d to %d",
				p.Account, p.Node, p.First, found.Entries, found.FirstUs, found.LastUs, p.Entries, p.FirstUs, p.LastUs)
		}
		if err != nil {
			r.fault("account %d: the page of node %d at record %d cannot be read: %v", p.Account, p.Node, p.First, err)
		}
		id := recountHour{at, journal.HourOf(p.FirstUs)}
		sum := hours[id]
		sum.Add(&p.Entries)
		hours[id] = sum
		return nil
	}, "SELECT account, node, seq_first, seq_last, first_us, last_us, requests, data, "+entryColumns+`
		FROM usage_page ORDER BY account, node, seq_first`)
	if err == nil {
		err = r.countSumsOfUsage(q, hours)
	}
	if err != nil {
		return err
	}
	return r.countHours(q, hours)
}

type (
	recountSource struct{ account, node uint32 }
	recountHour   struct {
		recountSource
		hour int64
	}
)

// countHours compares the figures of hours with the recounted ones.
func (r *Recount) countHours(q *Query, hours map[recountHour]journal.Entries) error {
	err := q.Each(func(rows *sql.Rows) error {
		var id recountHour
		var n journal.Entries
		if err := rows.Scan(pointers([]any{&id.account, &id.hour, &id.node}, n[:])...); err != nil {
			return err
		}
		if n != hours[id] {
			r.fault("account %d: hour %d of node %d has %v entries by its row, %v by its pages", id.account, id.hour,
				id.node, n, hours[id])
		}
		delete(hours, id)
		return nil
	}, "SELECT account, hour, node, "+entryColumns+" FROM usage_hour")
	for id, n := range hours {
		r.fault("account %d: hour %d of node %d has %v entries by its pages and no row", id.account, id.hour, id.node,
			n)
	}
	return err
}

// countSums checks that every entry balances (I6) and that the running sums of
// the house are those of its postings.
func (r *Recount) countSums(q *Query) error {
	err := r.none(q, "entry %[1]d does not balance: %[3]s %[2]s are over",
		[]any{new(int64), new(money.Currency), new(money.Nano)},
		"SELECT entry, currency, CAST(sum(amount) AS {I64}) FROM posting GROUP BY entry, currency HAVING sum(amount) <> 0")
	if err != nil {
		return err
	}
	return r.none(q, "book %[1]s: balance %[3]s %[2]s, postings add up to %[4]s",
		[]any{new(string), new(money.Currency), new(money.Nano), new(money.Nano)}, `SELECT book, currency, CAST(sum(balance) AS {I64}), CAST(sum(posted) AS {I64}) FROM (
		SELECT book, currency, balance, 0 AS posted FROM house
		UNION ALL SELECT book, currency, 0, amount FROM posting WHERE book <> 'customer')
		AS b GROUP BY book, currency HAVING sum(balance) <> sum(posted)`)
}
