package report

import (
	"database/sql"
	"fmt"
	"slices"

	"farebox/billing/journal"
	"farebox/billing/store"
)

// detailed gives how far the detail of each node has come.
func detailed(q *store.Query) (map[uint32]uint64, error) {
	seqs := map[uint32]uint64{}
	err := q.Each(func(rows *sql.Rows) error {
		var node uint32
		var seq uint64
		err := rows.Scan(&node, &seq)
		seqs[node] = seq
		return err
	}, "SELECT node, seq FROM applied WHERE sink = 'usage'")
	return seqs, err
}

// index finds entries of one account, and of one currency or all, by time
// and by number without opening more pages than it must: hours and pages have
// counts. Ranks and numbers count from the account's first entry.
type index struct {
	*store.Query
	account uint32
	place   int
	bounds  map[uint32]uint64 // pages of each node behind these do not exist; nil: all do
	hours   []hourCount
	pruned  *store.Pruned // nil: not asked yet
}

type hourCount struct {
	hour int64
	n    int64
}

// pageRef is a page without its detail.
type pageRef struct {
	node            uint32
	first, last     uint64
	firstUs, lastUs int64
	requests        int
	n               int64 // entries of the index's currency
}

// countColumn is the number of entries in the currency of a place, in SQL.
func countColumn(place int) string {
	if place == journal.AnyPlace {
		return store.EntryCount
	}
	return store.EntryColumn(place)
}

func newIndex(q *store.Query, account uint32, place int, bounds map[uint32]uint64) (*index, error) {
	x := &index{Query: q, account: account, place: place, bounds: bounds}
	if err := x.loadHours(); err != nil {
		return nil, fmt.Errorf("cannot read the hours of an account's usage: %w", err)
	}
	return x, nil
}

func (x *index) loadHours() error {
	err := x.Each(func(rows *sql.Rows) error {
		var h hourCount
		err := rows.Scan(&h.hour, &h.n)
		x.hours = append(x.hours, h)
		return err
	}, "SELECT hour, CAST(sum("+countColumn(x.place)+") AS {I64}) FROM usage_hour"+
		" WHERE account = $1 GROUP BY hour ORDER BY hour", x.account)
	if err != nil || x.bounds == nil {
		return err
	}
	applied, err := detailed(x.Query)
	if err != nil {
		return err
	}
	for node, seq := range applied {
		if seq <= x.bounds[node] {
			continue
		}
		err := x.Each(func(rows *sql.Rows) error {
			var us, n int64
			if err := rows.Scan(&us, &n); err != nil {
				return err
			}
			byHour := func(h hourCount, hour int64) int { return int(h.hour - hour) }
			i, ok := slices.BinarySearchFunc(x.hours, journal.HourOf(us), byHour)
			if !ok || x.hours[i].n < n {
				return journal.ErrPage
			}
			x.hours[i].n -= n
			return nil
		}, "SELECT first_us, "+countColumn(x.place)+" FROM usage_page"+
			" WHERE account = $1 AND node = $2 AND seq_first > $3", x.account, node, x.bounds[node])
		if err != nil {
			return err
		}
	}
	return nil
}

// total is how many entries there are.
func (x *index) total() (n int64) {
	for _, h := range x.hours {
		n += h.n
	}
	return n
}

// refsMost is how many pages are looked up at a time.
const refsMost = 256

// refs gives the next pages in order of their begin: those that begin from
// fromUs on and before toUs, end at endUs or later, and come after a page.
func (x *index) refs(fromUs, toUs, endUs int64, after *pageRef) (list []pageRef, err error) {
	query := "SELECT node, seq_first, seq_last, first_us, last_us, requests, " + countColumn(x.place) +
		` FROM usage_page
		WHERE account = $1 AND first_us >= $2 AND first_us < $3 AND last_us >= $4`
	args := []any{x.account, fromUs, toUs, endUs}
	if after != nil {
		args[1] = after.firstUs
		query += " AND (first_us, node, seq_first) > ($2, $5, $6)"
		args = append(args, after.node, after.first)
	}
	query += fmt.Sprintf(" ORDER BY first_us, node, seq_first LIMIT %d", refsMost)
	err = x.Each(func(rows *sql.Rows) error {
		var p pageRef
		err := rows.Scan(&p.node, &p.first, &p.last, &p.firstUs, &p.lastUs, &p.requests, &p.n)
		list = append(list, p)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return x.withSums(list, max(fromUs, endUs), toUs, after)
}

// eachRef gives all pages that refs would give, except those that have no entry
// of the currency or do not exist yet. It stops when do says so.
func (x *index) eachRef(fromUs, toUs, endUs int64, do func(*pageRef) (more bool, err error)) error {
	var after *pageRef
	for {
		list, err := x.refs(fromUs, toUs, endUs, after)
		if err != nil {
			return err
		}
		for i := range list {
			if x.hides(&list[i]) {
				continue
			}
			if more, err := do(&list[i]); !more || err != nil {
				return err
			}
		}
		if len(list) < refsMost {
			return nil
		}
		after = &list[len(list)-1]
	}
}

func (x *index) hides(p *pageRef) bool {
	return p.n == 0 || p.node != store.SumNode && x.bounds != nil && p.first > x.bounds[p.node]
}

// open gives the entries of a page.
func (x *index) open(p *pageRef) ([]Entry, error) {
	if p.node == store.SumNode {
		return x.openSums(p)
	}
	page := journal.Page{Account: x.account, Node: p.node, First: p.first, Last: p.last, Requests: p.requests}
	err := x.Row("SELECT data FROM usage_page WHERE account = $1 AND node = $2 AND seq_first = $3",
		x.account, p.node, p.first).Scan(&page.Data)
	if err != nil {
		return nil, fmt.Errorf("cannot read a page of usage: %w", err)
	}
	// Requests are in the page as they were recorded, which differs from their
	// times by moments.
	var list []Entry
	err = page.Each(x.SoldBefore(), func(r *journal.Record) error {
		list = AppendEntries(list, r, p.node, x.place)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !slices.IsSortedFunc(list, byPosition) {
		slices.SortFunc(list, byPosition)
	}
	if int64(len(list)) != p.n {
		err = fmt.Errorf("%w: node %d, record %d: it has %d entries, counted as %d",
			journal.ErrPage, p.node, p.first, len(list), p.n)
	}
	return list, err
}

// rank is how many entries come before a time.
func (x *index) rank(us int64) (n int64, err error) {
	hour := journal.HourOf(us)
	for _, h := range x.hours {
		if h.hour >= hour {
			break
		}
		n += h.n
	}
	err = x.eachRef(hour*journal.HourUs, us, 0, func(p *pageRef) (bool, error) {
		if p.lastUs < us {
			n += p.n
			return true, nil
		}
		list, err := x.open(p)
		for i := 0; i < len(list) && list[i].AtUs < us; i++ {
			n++
		}
		return true, err
	})
	return n, err
}

// seek gives a time not after that of entry number off, and how many entries
// come before that time. Where pages do not overlap, the entry is in the page
// that begins then.
func (x *index) seek(off int64) (us, rank int64, err error) {
	sum := int64(0)
	for _, h := range x.hours {
		if sum+h.n <= off {
			sum += h.n
			continue
		}
		us = h.hour * journal.HourUs
		err = x.eachRef(us, us+journal.HourUs, 0, func(p *pageRef) (bool, error) {
			us = p.firstUs
			sum += p.n
			return sum <= off, nil
		})
		break
	}
	if err != nil {
		return 0, 0, err
	}
	rank, err = x.rank(us)
	return us, rank, err
}

// walk gives the entries from a position on and before a time, in order, until
// yield has enough. Pages are opened as their time comes; those of several
// nodes overlap and are merged.
func (x *index) walk(from Position, endUs int64, yield func(*Entry) (more bool)) error {
	m := merge{}
	done := false
	err := x.eachRef(journal.HourOf(from.Us)*journal.HourUs, endUs, from.Us, func(p *pageRef) (bool, error) {
		if done = !m.until(p.firstUs, yield); done {
			return false, nil
		}
		list, err := x.open(p)
		if err != nil {
			return false, err
		}
		i, _ := slices.BinarySearchFunc(list, from, func(e Entry, at Position) int { return e.At.Compare(at) })
		m.add(list[i:])
		return true, nil
	})
	if err == nil && !done {
		m.until(endUs, yield)
	}
	return err
}

// merge holds opened pages, each in order.
type merge struct{ open [][]Entry }

func (m *merge) add(list []Entry) {
	if len(list) > 0 {
		m.open = append(m.open, list)
	}
}

// until yields the entries before a time. false: yield has enough.
func (m *merge) until(us int64, yield func(*Entry) (more bool)) bool {
	for len(m.open) > 0 {
		first := 0
		for i := range m.open {
			if m.open[i][0].At.Compare(m.open[first][0].At) < 0 {
				first = i
			}
		}
		e := &m.open[first][0]
		if e.AtUs >= us {
			return true
		}
		if m.open[first] = m.open[first][1:]; len(m.open[first]) == 0 {
			m.open = slices.Delete(m.open, first, first+1)
		}
		if !yield(e) {
			return false
		}
	}
	return true
}
