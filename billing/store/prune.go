package store

import (
	"cmp"
	"database/sql"
	"errors"
	"math"
	"slices"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// Single requests are pruned by whole UTC days, by their end. Each step adds some pages of a day
// to the sums of their account and deletes them, in one transaction: sums and the pages that are
// left always are all requests. So sums are the checkpoint of a recount, too.

// schema13Usage was added in version 13: sums of requests that were pruned.
const schema13Usage = `
-- What pruned requests add up to, by the day of their end (ended) and of their admission (day);
-- signs are those of listings. shortfall and debt are what requests left.
CREATE TABLE usage_sum(
  account {I64} NOT NULL, ended {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL,
  currency {I64} NOT NULL, kind {I64} NOT NULL, moved {I64} NOT NULL, requests {I64} NOT NULL, units {I64} NOT NULL,
  amount {I64} NOT NULL, shortfall {I64} NOT NULL, debt {I64} NOT NULL,
  PRIMARY KEY(account, ended, api_key, day, model, currency, kind, moved)) {KEYED};
-- The part of a posting that is of requests which were pruned, and ended on another day than it
-- was booked.
CREATE TABLE usage_late(
  account {I64} NOT NULL, currency {I64} NOT NULL, entry {I64} NOT NULL, ended {I64} NOT NULL, amount {I64} NOT NULL,
  debt {I64} NOT NULL, PRIMARY KEY(account, currency, entry, ended)) {KEYED};
-- One row: requests that ended before pruned_day are pruned, or are being pruned by node until
-- lease_us. steps counts how often.
CREATE TABLE usage_kept(
  no {I64} PRIMARY KEY, pruned_day {I64} NOT NULL, steps {I64} NOT NULL, node {I64} NOT NULL, lease_us {I64} NOT NULL) {KEYED};
-- The files of days that were exported. bounds has the last record of each node in the file;
-- later ones, of a node that was away, are in the next part.
CREATE TABLE usage_export(
  day {I64} NOT NULL, part {I64} NOT NULL, name TEXT NOT NULL, requests {I64} NOT NULL, digest {BLOB} NOT NULL,
  bounds TEXT NOT NULL, node {I64} NOT NULL, pruned {I64} NOT NULL DEFAULT 0, PRIMARY KEY(day, part)) {KEYED};
-- The charges of a node by record.
CREATE INDEX entry_charge ON entry(node, seq_last) WHERE kind = 'CHARGE';
`

// SumNode is the node number of the sums of pruned requests. The sums of a
// day are at its end.
const SumNode = math.MaxUint32

// SumUs is the time of the sums of a day, counted from 1970-01-01.
func SumUs(day int32) int64 { return dayUs(day+1) - 1 }

func dayUs(day int32) int64 { return int64(day) * 24 * journal.HourUs }

// prunePages is after how many pages a step ends.
const prunePages = 64

// ErrPrunes says that another node prunes.
var ErrPrunes = errors.New("another node prunes usage")

// PruneStore prunes single requests.
type PruneStore interface {
	Pruned() (Pruned, error)
	TakePruning(nowUs, untilUs int64) error
	OldestUsage(before int32) (day int32, found bool, err error)
	BeginPrune(day int32) error
	PruneAccounts(day int32, after uint32) ([]uint32, error)
	PruneStep(day int32, accounts []uint32, bounds map[uint32]uint64, most int, untilUs int64) (done, requests int, err error)
	UsageOf(day int32, do func(n *UsageNames, node uint32, r *journal.Record) error) (bounds map[uint32]uint64, err error)
	Export(day int32) (*ExportRow, error)
	AddExport(r *ExportRow) error
	EndExport(r *ExportRow) error
	Node() uint32
}

// Pruned says which requests were pruned.
type Pruned struct {
	Day   int32 // those that ended before it; 0: none
	Steps int64
}

// Pruned says which requests were pruned, as the transaction sees it.
func (q *Query) Pruned() (p Pruned, err error) {
	var date int64
	err = q.Row("SELECT coalesce(max(pruned_day), 0), coalesce(max(steps), 0) FROM usage_kept").Scan(&date, &p.Steps)
	if date != 0 {
		p.Day = calendar.DayOfDate(date)
	}
	return p, err
}

// Pruned says which requests were pruned.
func (s *sqlStore) Pruned() (Pruned, error) { return ask(s, (*Query).Pruned) }

// TakePruning makes this node the one that prunes until a time, unless another node is.
func (s *sqlStore) TakePruning(nowUs, untilUs int64) error {
	return s.write(func(t *tx) error {
		if _, err := t.exec("INSERT INTO usage_kept(no, pruned_day, steps, node, lease_us) VALUES(1, 0, 0, 0, 0) ON CONFLICT DO NOTHING"); err != nil {
			return err
		}
		n, err := t.affect("UPDATE usage_kept SET node = $1, lease_us = $3 WHERE node = $1 OR lease_us <= $2", t.s.node, nowUs,
			untilUs)
		if err == nil && n == 0 {
			return ErrPrunes
		}
		return err
	})
}

// OldestUsage is the first day that has single requests, if it is before a day.
func (s *sqlStore) OldestUsage(before int32) (day int32, found bool, err error) {
	us, err := value[sql.NullInt64](s, `SELECT min(us) FROM (
		SELECT (SELECT min(p.first_us) FROM usage_page p WHERE p.account = a.no) AS us FROM account a) AS x`)
	day = calendar.DayOf(us.Int64 * 1000)
	return day, us.Valid && day < before, err
}

// BeginPrune notes that a day is pruned: readers expect sums there from now on.
func (s *sqlStore) BeginPrune(day int32) error {
	return s.write(func(t *tx) error {
		n, err := t.affect("UPDATE usage_kept SET pruned_day = CASE WHEN pruned_day < $2 THEN $2 ELSE pruned_day END WHERE node = $1",
			t.s.node, calendar.Date(day+1))
		if err == nil && n == 0 {
			return ErrPrunes
		}
		return err
	})
}

// PruneAccounts gives some accounts with single requests of a day, behind an account.
func (s *sqlStore) PruneAccounts(day int32, after uint32) ([]uint32, error) {
	return ask(s, func(q *Query) ([]uint32, error) {
		return values[uint32](q, `SELECT a.no FROM account a WHERE a.no > $1 AND EXISTS(SELECT 1 FROM usage_page p
			WHERE p.account = a.no AND p.first_us >= $2 AND p.first_us < $3) ORDER BY a.no LIMIT 64`, after, dayUs(day), dayUs(day+1))
	})
}

// PruneStep prunes some requests of a day: those of the first accounts, up to a record of each
// node (nil: all), until there are most of them or more. done is how many accounts have no
// more, requests how many it pruned.
func (s *sqlStore) PruneStep(day int32, accounts []uint32, bounds map[uint32]uint64, most int, untilUs int64) (done, requests int, err error) {
	err = s.write(func(t *tx) error {
		done, requests = 0, 0
		n, err := t.affect("UPDATE usage_kept SET steps = steps + 1, lease_us = $2 WHERE node = $1", t.s.node, untilUs)
		if err == nil && n == 0 {
			err = ErrPrunes
		}
		p := pruning{tx: t, day: day, bounds: bounds, pages: prunePages, requests: most}
		for err == nil && done < len(accounts) && p.pages > 0 && p.requests > 0 {
			var all bool
			if all, err = p.account(accounts[done]); all {
				done++
			}
		}
		requests = most - p.requests
		return err
	})
	return done, requests, err
}

// pruning is a step.
type pruning struct {
	*tx
	day             int32
	bounds          map[uint32]uint64
	pages, requests int // the number it may still prune
	of              uint32
	sums            map[sumID]*sumRow
	late            map[lateID]*lateRow
	hours           map[usageHourOf]*journal.Entries
}

type sumID struct {
	key      uint32
	day      int32
	model    uint32
	upstream uint32
	currency money.Currency
	kind     money.Kind
	moved    journal.Moved
}

type sumRow struct {
	requests, units         int64
	amount, shortfall, debt money.Nano
}

type lateID struct {
	currency money.Currency
	entry    int64
}

type lateRow struct{ amount, debt money.Nano }

type usageHourOf struct {
	hour int64
	node uint32
}

// entrySpan are the records of an entry.
type entrySpan struct {
	id          int64
	first, last uint64
}

type prunedPage struct {
	journal.Page
	late []entrySpan // entries of other days with its records
}

// account prunes requests of an account. all: it has no more.
func (p *pruning) account(account uint32) (all bool, err error) {
	p.of, p.sums, p.late, p.hours = account, map[sumID]*sumRow{}, map[lateID]*lateRow{}, map[usageHourOf]*journal.Entries{}
	type ref struct {
		node        uint32
		first, last uint64
	}
	beyond := 0 // pages behind the bounds stay
	for all = true; all; {
		refs, err := list(&p.Query, func(r *ref) []any { return []any{&r.node, &r.first, &r.last} },
			`SELECT node, seq_first, seq_last FROM usage_page WHERE account = $1 AND first_us >= $2 AND first_us < $3
			ORDER BY first_us, node, seq_first LIMIT $4 OFFSET $5`, account, dayUs(p.day), dayUs(p.day+1), prunePages, beyond)
		if err != nil {
			return false, err
		}
		for _, r := range refs {
			if p.bounds != nil && r.last > p.bounds[r.node] {
				beyond++
				continue
			}
			if p.pages == 0 || p.requests <= 0 {
				all = false
				break
			}
			if err := p.page(r.node, r.first); err != nil {
				return false, err
			}
		}
		if len(refs) < prunePages {
			break
		}
	}
	if len(p.sums) > 0 {
		err = p.write()
	}
	return all, err
}

// page takes a page out of the store, and adds it to the sums.
func (p *pruning) page(node uint32, first uint64) error {
	page := prunedPage{Page: journal.Page{Account: p.of, Node: node, First: first}}
	n := &page.Entries
	err := p.Row(`DELETE FROM usage_page WHERE account = $1 AND node = $2 AND seq_first = $3
		RETURNING seq_last, first_us, requests, data, `+entryColumns, p.of, node, first).Scan(
		pointers([]any{&page.Last, &page.FirstUs, &page.Requests, &page.Data}, n[:])...)
	if err != nil {
		return err
	}
	p.pages--
	p.requests -= page.Requests
	hour := usageHourOf{journal.HourOf(page.FirstUs), node}
	if p.hours[hour] == nil {
		p.hours[hour] = &journal.Entries{}
	}
	p.hours[hour].Add(n)
	if err := p.lateEntries(&page); err != nil {
		return err
	}
	return page.Each(p.s.before, func(r *journal.Record) error {
		p.add(r)
		i, _ := slices.BinarySearchFunc(page.late, r.Seq, func(e entrySpan, seq uint64) int { return cmp.Compare(e.last, seq) })
		if i < len(page.late) && page.late[i].first <= r.Seq {
			p.addLate(page.late[i].id, r)
		}
		return nil
	})
}

// lateEntries finds the charges that were booked on another day.
func (p *pruning) lateEntries(page *prunedPage) (err error) {
	if page.Node == storeNode {
		return nil // booked as they were made
	}
	page.late, err = list(&p.Query, func(e *entrySpan) []any { return []any{&e.id, &e.first, &e.last} },
		`SELECT id, seq_first, seq_last FROM entry WHERE kind = 'CHARGE' AND node = $1 AND seq_last >= $2 AND seq_last <= coalesce(
		(SELECT min(seq_last) FROM entry WHERE kind = 'CHARGE' AND node = $1 AND seq_last >= $3), $3)
		AND (ts_us < $4 OR ts_us >= $5) ORDER BY seq_last`, page.Node, page.First, page.Last, dayUs(p.day), dayUs(p.day+1))
	return err
}

func (p *pruning) sum(r *journal.Record, place int, kind money.Kind) *sumRow {
	id := sumID{r.Key, r.Day, r.Model, r.Upstream, money.SpendOrder[place], kind, r.Moved}
	if p.sums[id] == nil {
		p.sums[id] = &sumRow{}
	}
	return p.sums[id]
}

func (p *pruning) add(r *journal.Record) {
	var s journal.Shares
	r.Spread(&s)
	sign := r.Moved.Sign()
	for _, x := range s.All() {
		row := p.sum(r, int(x.Place), x.Kind)
		row.units += sign * x.Units
		row.amount += money.Nano(sign) * x.Amount
	}
	row := p.sum(r, s.First, s.Last)
	row.shortfall += r.Shortfall
	row.debt += r.Debt
	if r.Moved == journal.Charged {
		row.requests++
	}
}

func (p *pruning) addLate(entry int64, r *journal.Record) {
	for place, n := range r.Amounts {
		debt := money.Nano(0)
		if place == money.InUSD {
			debt = r.Debt
		}
		if n == 0 && debt == 0 {
			continue
		}
		id := lateID{money.SpendOrder[place], entry}
		if p.late[id] == nil {
			p.late[id] = &lateRow{}
		}
		p.late[id].amount -= n
		p.late[id].debt += debt
	}
}

var (
	sqlUsageSum = `INSERT INTO usage_sum AS s(account, ended, api_key, day, model, upstream, currency, kind, moved, requests, units, amount, shortfall,
		debt) {ROWS iiiiiiiiiiiiii} ON CONFLICT(account, ended, api_key, day, model, upstream, currency, kind, moved) DO UPDATE SET
		requests = s.requests + excluded.requests, units = s.units + excluded.units, amount = s.amount + excluded.amount,
		shortfall = s.shortfall + excluded.shortfall, debt = s.debt + excluded.debt`
	sqlUsageLate = `INSERT INTO usage_late AS l(account, currency, entry, ended, amount, debt) {ROWS iiiiii}
		ON CONFLICT(account, currency, entry, ended) DO UPDATE SET amount = l.amount + excluded.amount, debt = l.debt + excluded.debt`
	sqlNoHour = "DELETE FROM usage_hour WHERE account = $1 AND hour >= $2 AND hour < $3 AND " +
		byCurrency("entries_{NAME} = 0", " AND ")
	// sqlSumHour counts the sums of a day as entries of its last hour; those of several upstreams
	// are one entry.
	sqlSumHour = "INSERT INTO usage_hour(account, hour, node, " + entryColumns + `)
		SELECT account, CAST($3 AS {I64}), CAST($4 AS {I64}), ` + byCurrency("sum(CASE currency WHEN {NO} THEN 1 ELSE 0 END)", ", ") + `
		FROM (SELECT DISTINCT account, api_key, day, model, currency, kind, moved
		FROM usage_sum WHERE account = $1 AND ended = $2 AND (units <> 0 OR amount <> 0)) AS e GROUP BY account
		ON CONFLICT(account, hour, node) DO UPDATE SET ` + byCurrency("entries_{NAME} = excluded.entries_{NAME}", ", ")
)

// write writes the sums of an account.
func (p *pruning) write() error {
	ended := calendar.Date(p.day)
	sums, late, hours := p.bulk(sqlUsageSum), p.bulk(sqlUsageLate), p.bulk(sqlHour)
	for id, r := range p.sums {
		sums.add(p.of, ended, id.key, calendar.Date(id.day), id.model, id.upstream, int64(id.currency), int64(id.kind), int64(id.moved),
			r.requests, r.units, int64(r.amount), int64(r.shortfall), int64(r.debt))
	}
	for id, r := range p.late {
		late.add(p.of, int64(id.currency), id.entry, ended, int64(r.amount), int64(r.debt))
	}
	for id, n := range p.hours {
		for place := range n {
			n[place] = -n[place]
		}
		hours.add(numbers([]any{p.of, id.hour, id.node}, n[:])...)
	}
	if err := p.flush(sums, late, hours); err != nil {
		return err
	}
	first := journal.HourOf(dayUs(p.day))
	if _, err := p.exec(sqlNoHour, p.of, first, first+24); err != nil {
		return err
	}
	_, err := p.exec(sqlSumHour, p.of, ended, first+23, int64(SumNode))
	return err
}
