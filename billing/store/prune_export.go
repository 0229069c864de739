package store

import (
	"database/sql"
	"encoding/json"
	"errors"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
)

// ExportRow is a file with the single requests of a day.
type ExportRow struct {
	Day      int32
	Part     int
	Name     string
	Requests int64
	Digest   []byte            // SHA-256 of the file
	Bounds   map[uint32]uint64 // the last record of each node that may be in it
	Node     uint32            // that wrote it
	Pruned   bool              // all that is in it
}

// Export gives the last part of a day that was exported; nil: none.
func (s *sqlStore) Export(day int32) (*ExportRow, error) {
	return ask(s, func(q *Query) (*ExportRow, error) {
		r := &ExportRow{Day: day}
		var bounds string
		var pruned int64
		err := q.Row(`SELECT part, name, requests, digest, bounds, node, pruned FROM usage_export WHERE day = $1 ORDER BY part DESC LIMIT 1`,
			calendar.Date(day)).Scan(&r.Part, &r.Name, &r.Requests, &r.Digest, &bounds, &r.Node, &pruned)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r.Pruned = pruned != 0
		return r, json.Unmarshal([]byte(bounds), &r.Bounds)
	})
}

// AddExport notes a file, which must be on the disk.
func (s *sqlStore) AddExport(r *ExportRow) error {
	bounds, err := json.Marshal(r.Bounds)
	if err != nil {
		return err
	}
	return s.write(func(t *tx) error {
		r.Node = t.s.node
		_, err := t.exec("INSERT INTO usage_export(day, part, name, requests, digest, bounds, node) VALUES($1, $2, $3, $4, $5, $6, $7)",
			calendar.Date(r.Day), r.Part, r.Name, r.Requests, r.Digest, string(bounds), r.Node)
		return s.unique(err)
	})
}

// EndExport notes that the rows of a file were pruned.
func (s *sqlStore) EndExport(r *ExportRow) error {
	return s.write(func(t *tx) error {
		_, err := t.exec("UPDATE usage_export SET pruned = 1 WHERE day = $1 AND part = $2", calendar.Date(r.Day), r.Part)
		return err
	})
}

// Node is the number of this node in records.
func (s *sqlStore) Node() uint32 { return s.node }

// UsageOf gives the single requests of a day, by account, as they are at one moment, and how far
// each node had written its requests then. Names of accounts, keys and models are those of ids.
func (s *sqlStore) UsageOf(day int32, do func(n *UsageNames, node uint32, r *journal.Record) error) (bounds map[uint32]uint64, err error) {
	err = s.snapshot(s.dialect.long, func(q *Query) error {
		bounds = map[uint32]uint64{}
		if err := each2(q, func(node uint32, seq uint64) { bounds[node] = seq },
			"SELECT node, seq FROM applied WHERE sink = 'usage'"); err != nil {
			return err
		}
		names := &UsageNames{}
		var err error
		if names.Models, err = q.Models(); err != nil {
			return err
		}
		if names.Upstreams, err = q.Upstreams(); err != nil {
			return err
		}
		for after := uint32(0); ; {
			accounts, err := list(q, func(a *UsageNames) []any { return []any{&a.no, &a.Account} }, `SELECT a.no, a.id FROM account a
				WHERE a.no > $1 AND EXISTS(SELECT 1 FROM usage_page p WHERE p.account = a.no AND p.first_us >= $2 AND p.first_us < $3)
				ORDER BY a.no LIMIT 64`, after, dayUs(day), dayUs(day+1))
			if err != nil || len(accounts) == 0 {
				return err
			}
			for _, a := range accounts {
				after = a.no
				names.no, names.Account = a.no, a.Account
				if err := q.usageOf(day, names, do); err != nil {
					return err
				}
			}
		}
	})
	return bounds, err
}

// UsageNames are the ids that belong to the numbers in records of an account.
type UsageNames struct {
	no        uint32
	Account   string
	Keys      map[uint32]string
	Models    map[uint32]string
	Upstreams map[uint32]string
}

func (q *Query) usageOf(day int32, names *UsageNames, do func(n *UsageNames, node uint32, r *journal.Record) error) error {
	names.Keys = map[uint32]string{}
	err := each2(q, func(number uint32, id string) { names.Keys[number] = id }, "SELECT no, id FROM api_key WHERE account = $1", names.no)
	if err != nil {
		return err
	}
	type ref struct {
		node  uint32
		first uint64
	}
	refs, err := list(q, func(r *ref) []any { return []any{&r.node, &r.first} }, `SELECT node, seq_first FROM usage_page
		WHERE account = $1 AND first_us >= $2 AND first_us < $3 ORDER BY first_us, node, seq_first`, names.no, dayUs(day), dayUs(day+1))
	for i := 0; err == nil && i < len(refs); i++ {
		p := journal.Page{Account: names.no, Node: refs[i].node, First: refs[i].first}
		err = q.Row("SELECT seq_last, requests, data FROM usage_page WHERE account = $1 AND node = $2 AND seq_first = $3", names.no,
			p.Node, p.First).Scan(&p.Last, &p.Requests, &p.Data)
		if err == nil {
			err = p.Each(q.s.before, func(r *journal.Record) error { return do(names, p.Node, r) })
		}
	}
	return err
}

// countSumsOfUsage adds pruned sums to those of the pages, and checks that they are before the
// day up to which was pruned, and that late parts fit their postings.
func (r *Recount) countSumsOfUsage(q *Query, hours map[recountHour]journal.Entries) error {
	pruned, err := q.Pruned()
	if err != nil {
		return err
	}
	r.prunedUs = dayUs(pruned.Day)
	var listed listedSum // the last one that was counted
	err = q.Each(func(rows *sql.Rows) error {
		var u usageRow
		var ended, date int64
		var currency money.Currency
		var moved journal.Moved
		var shortfall, debt money.Nano
		if err := rows.Scan(&u.id.Account, &ended, &u.id.Key, &date, &u.id.model, &u.id.upstream, &currency, &u.kind, &moved, &u.requests,
			&u.units, &u.amount, &shortfall, &debt); err != nil {
			return err
		}
		day := calendar.DayOfDate(ended)
		u.id.Day, u.place = calendar.DayOfDate(date), money.PlaceOf(currency)
		c := r.Accounts[u.id.Account]
		if c == nil || day >= pruned.Day || int(moved) >= len(c.moved) {
			r.fault("account %d: the sum of usage of %d does not belong there", u.id.Account, ended)
			return nil
		}
		c.addSum(&u, moved, shortfall, debt)
		next := listedSum{u.id, ended, u.place, u.kind, moved}
		next.id.upstream = 0
		if (u.units != 0 || u.amount != 0) && next != listed {
			listed = next
			id := recountHour{recountSource{u.id.Account, SumNode}, journal.HourOf(SumUs(day))}
			n := hours[id]
			n[u.place]++
			hours[id] = n
		}
		return nil
	}, `SELECT account, ended, api_key, day, model, upstream, currency, kind, moved, requests, units, amount, shortfall, debt FROM usage_sum
		ORDER BY account, ended, api_key, day, model, currency, kind, moved`)
	if err != nil {
		return err
	}
	return r.none(q, "account %d: %s of entry %d was pruned as of another day, it has booked %s",
		[]any{new(uint32), new(money.Nano), new(int64), new(money.Nano)}, `SELECT l.account, l.amount, l.entry, coalesce(p.amount, 0)
		FROM (SELECT account, currency, entry, CAST(sum(amount) AS {I64}) AS amount FROM usage_late GROUP BY account, currency, entry) l
		LEFT JOIN posting p ON p.entry = l.entry AND p.book = 'customer' AND p.account = l.account AND p.currency = l.currency
		LEFT JOIN posting w ON w.entry = l.entry AND w.book = 'late' AND w.account = l.account AND w.currency = l.currency
		WHERE l.amount > 0 OR l.amount < coalesce(p.amount, 0) + coalesce(w.amount, 0)`)
}

// listedSum is an entry of listings: the sums of all upstreams.
type listedSum struct {
	id    rollupKey
	ended int64
	place int
	kind  money.Kind
	moved journal.Moved
}

func (c *AccountCount) addSum(u *usageRow, moved journal.Moved, shortfall, debt money.Nano) {
	if moved != journal.Charged {
		c.moved[moved][u.place] += money.Nano(moved.Sign()) * u.amount
		c.movedDetail.add(&u.id, u.place, u.kind, 0, u.units, u.amount)
		return
	}
	c.detail[u.place] += u.amount
	c.detailShort += shortfall
	c.detailOwed += debt
	c.detailCount += u.requests
	c.detailPrint.add(&u.id, u.place, u.kind, u.requests, u.units, u.amount)
}
