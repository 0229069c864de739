package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"farebox/billing/journal"
)

var (
	sqlPage = "INSERT INTO usage_page(account, node, seq_first, seq_last, first_us, last_us, requests, data, " + entryColumns +
		") {ROWS iiiiiiib" + byCurrency("i", "") + "}"
	sqlHour = "INSERT INTO usage_hour(account, hour, node, " + entryColumns + ") {ROWS iii" + byCurrency("i", "") + `}
		ON CONFLICT(account, hour, node) DO UPDATE SET ` +
		byCurrency("entries_{NAME} = usage_hour.entries_{NAME} + excluded.entries_{NAME}", ", ")
)

// AddPages writes the detail of the requests among records first to last,
// unless an earlier try did.
func (s *sqlStore) AddPages(pages []*journal.Page, first, last uint64) error {
	return s.write(func(t *tx) error {
		if done, err := t.advance(ToUsage, first, last); done || err != nil {
			return err
		}
		return t.addPages(s.node, pages)
	})
}

type usageHourID struct {
	account uint32
	hour    int64
}

// addPages writes pages of a node and counts them by hour.
func (t *tx) addPages(node uint32, pages []*journal.Page) error {
	hours := map[usageHourID]*journal.Entries{}
	b := t.bulk(sqlPage)
	for _, p := range pages {
		n := &p.Entries
		b.add(numbers([]any{p.Account, node, p.First, p.Last, p.FirstUs, p.LastUs, p.Requests, p.Data}, n[:])...)
		id := usageHourID{p.Account, journal.HourOf(p.FirstUs)}
		if hours[id] == nil {
			hours[id] = &journal.Entries{}
		}
		hours[id].Add(n)
	}
	if err := b.flush(); err != nil {
		return err
	}
	ids := slices.Collect(maps.Keys(hours))
	slices.SortFunc(ids, func(a, b usageHourID) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.hour, b.hour))
	})
	b = t.bulk(sqlHour)
	for _, id := range ids {
		b.add(numbers([]any{id.account, id.hour, node}, hours[id][:])...)
	}
	return b.flush()
}

// repackPages counts the entries of pages from before version 3, and divides
// those that go over the end of an hour.
func (t *tx) repackPages() error {
	type pageID struct {
		account, node uint32
		first         uint64
	}
	ids, err := list(&t.Query, func(id *pageID) []any { return []any{&id.account, &id.node, &id.first} },
		"SELECT account, node, seq_first FROM usage_page")
	if err != nil {
		return err
	}
	for _, id := range ids {
		old := journal.Page{Account: id.account, First: id.first}
		err := t.Row("SELECT seq_last, requests, data FROM usage_page WHERE account = $1 AND node = $2 AND "+
			"seq_first = $3", id.account, id.node, id.first).
			Scan(&old.Last, &old.Requests, &old.Data)
		if err != nil {
			return err
		}
		var set journal.Pages
		set.Begin(id.first - 1)
		if err := old.Each(t.s.before, func(r *journal.Record) error { set.Add(r); return nil }); err != nil {
			return err
		}
		if _, err := t.exec("DELETE FROM usage_page WHERE account = $1 AND node = $2 AND seq_first = $3", id.account,
			id.node, id.first); err != nil {
			return err
		}
		if err := t.addPages(id.node, set.List()); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlStore) Report(ctx context.Context, do func(*Query) error) error {
	q, err := s.begin(ctx, cmp.Or(s.reports, s.reader), false)
	if err != nil {
		return s.shown(err)
	}
	defer func() { _ = q.tx.Rollback() }()
	return s.shown(do(q))
}

func (s *sqlStore) SoldBefore() journal.SoldBefore { return s.before }

// SoldBefore has the kinds that models sold in records of version 1.
func (q *Query) SoldBefore() journal.SoldBefore { return q.s.before }

// loadBefore reads the kinds that models sold in records of version 1.
func (q *Query) loadBefore() (journal.SoldBefore, error) {
	before := journal.SoldBefore{}
	return before, each2(q, func(number uint32, typ string) {
		if c, other := journal.ClassesByType[typ]; other {
			before[number] = c
		}
	}, "SELECT no, type FROM model WHERE type <> 'text'")
}
