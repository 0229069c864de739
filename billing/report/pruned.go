package report

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
)

// Where single requests were pruned, lists show their sums: an entry for each day, key,
// model, kind and currency, at the end of the day, over all upstreams. The sums of a day are like a page of the node
// store.SumNode, and are counted in its last hour.

// withSums adds the sums of days to the next pages, as refs gives them: those not before fromUs.
func (x *index) withSums(list []pageRef, fromUs, toUs int64, after *pageRef) ([]pageRef, error) {
	if x.pruned == nil {
		p, err := x.Pruned()
		if err != nil {
			return nil, err
		}
		x.pruned = &p
	}
	if x.pruned.Day == 0 {
		return list, nil
	}
	if after != nil {
		fromUs = max(fromUs, after.firstUs)
	}
	last := min(journal.HourOf(toUs), journal.HourOf(store.SumUs(x.pruned.Day)))
	err := x.Each(func(rows *sql.Rows) error {
		var hour int64
		p := pageRef{node: store.SumNode}
		if err := rows.Scan(&hour, &p.n); err != nil {
			return err
		}
		us := (hour+1)*journal.HourUs - 1
		day := calendar.DayOf(us * 1000)
		p.first, p.last, p.firstUs, p.lastUs = uint64(day), uint64(day), us, us
		if us >= fromUs && us < toUs && (after == nil || comparePages(&p, after) > 0) {
			list = append(list, p)
		}
		return nil
	}, "SELECT hour, "+countColumn(x.place)+` FROM usage_hour WHERE account = $1 AND hour BETWEEN $2 AND $3 AND node = $4
		ORDER BY hour`+fmt.Sprintf(" LIMIT %d", refsMost+2), x.account, journal.HourOf(fromUs), last, int64(store.SumNode))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b pageRef) int { return comparePages(&a, &b) })
	return list[:min(len(list), refsMost)], nil
}

// comparePages orders pages by their begin.
func comparePages(a, b *pageRef) int {
	return cmp.Or(cmp.Compare(a.firstUs, b.firstUs), cmp.Compare(a.node, b.node), cmp.Compare(a.first, b.first))
}

// openSums gives the sums of a day as entries.
func (x *index) openSums(p *pageRef) (list []Entry, err error) {
	seq := uint64(0)
	err = x.Each(func(rows *sql.Rows) error {
		e := Entry{AtUs: p.firstUs}
		if err := rows.Scan(&e.KeyNo, &e.ModelNo, &e.Currency, &e.Kind, &e.Moved, &e.Units, &e.Amount, &e.Requests); err != nil {
			return err
		}
		seq++
		e.Sum, e.At = true, Position{Us: p.firstUs, Node: store.SumNode, Seq: seq}
		if x.place == journal.AnyPlace || x.place == money.PlaceOf(e.Currency) {
			list = append(list, e)
		}
		return nil
	}, `SELECT api_key, model, currency, kind, moved, CAST(sum(units) AS {I64}), CAST(sum(amount) AS {I64}), CAST(sum(requests) AS {I64}) FROM usage_sum
		WHERE account = $1 AND ended = $2 AND (units <> 0 OR amount <> 0) GROUP BY api_key, day, model, currency, kind, moved
		ORDER BY api_key, day, model, currency, kind, moved`,
		x.account, calendar.Date(int32(p.first)))
	if err == nil && int64(len(list)) != p.n {
		err = fmt.Errorf("%w: the sums of day %d are %d, counted as %d", journal.ErrPage, p.first, len(list), p.n)
	}
	return list, err
}

// sumReason is the reason of lines that replace pruned requests.
const sumReason = "a sum of requests; single ones are not kept any more"

// sum adds a line for pruned requests to the one before it, if that is of the same day and
// no line of another time is between them.
func (s *Statement) sum(l *StatementLine) bool {
	if s.apart || len(s.Lines) == 0 || l.Reason != sumReason || l.Kind != LineCharge {
		return false
	}
	last := &s.Lines[len(s.Lines)-1]
	if last.Reason != sumReason || last.Kind != LineCharge || !last.At.Truncate(day).Equal(l.At.Truncate(day)) ||
		last.Balance+l.Amount != l.Balance {
		return false
	}
	last.At, last.Amount, last.Balance, last.Owed = l.At, last.Amount+l.Amount, l.Balance, last.Owed+l.Owed
	return true
}

const day = 24 * time.Hour

// latePart is the part of a posting that is of pruned requests, which ended on another day than
// it was booked.
type latePart struct {
	day          int32
	amount, debt money.Nano
}

// readLate reads these parts of some postings.
func (b *book) readLate(list []bookedPosting) error {
	if len(list) == 0 {
		return nil
	}
	first, last := list[0].id, list[0].id
	for i := range list {
		first, last = min(first, list[i].id), max(last, list[i].id)
	}
	b.late = map[int64][]latePart{}
	return b.Each(func(rows *sql.Rows) error {
		var entry, ended int64
		var part latePart
		err := rows.Scan(&entry, &ended, &part.amount, &part.debt)
		part.day = calendar.DayOfDate(ended)
		b.late[entry] = append(b.late[entry], part)
		return err
	}, "SELECT entry, ended, amount, debt FROM usage_late WHERE account = $1 AND currency = $2 AND entry BETWEEN $3 AND $4",
		b.account, int64(money.SpendOrder[b.place]), first, last)
}

// openingWithin is opening where from may be within a day whose requests were pruned: the balance
// at the begin of the day, and the lines since, of which the sums of the day are later.
func (b *book) openingWithin() (after int64, sum money.Nano, err error) {
	from, to := b.from, b.to
	begin := store.SumUs(calendar.DayOf(from*1000)-1) + 1
	if from > b.prunedUs || from == begin {
		return b.opening()
	}
	b.from, b.to = begin, from
	defer func() { b.from, b.to, b.latest = from, to, nil }()
	if after, sum, err = b.opening(); err == nil {
		err = b.findLatest()
	}
	for at := after; err == nil; {
		var list []bookedPosting
		var s Statement
		list, err = b.postings(at, statementMost)
		for i := 0; err == nil && i < len(list); i++ {
			err = b.lines(&list[i], &s)
		}
		for _, l := range s.Lines {
			sum += l.Amount
		}
		if n := len(list); n < statementMost || list[n-1].tsUs > begin+2*day.Microseconds() {
			break
		}
		at = list[len(list)-1].no
	}
	b.looked = 0
	return after, sum, err
}

// lateAround corrects an opening by these parts, where they are on the other side of from than
// their posting.
func (b *book) lateAround(after *int64, sum *money.Nano) error {
	// The sums of a day are at its end.
	from := calendar.Date(calendar.DayOf(b.from * 1000))
	return b.Each(func(rows *sql.Rows) error {
		var number, tsUs, ended int64
		var amount money.Nano
		if err := rows.Scan(&number, &tsUs, &ended, &amount); err != nil {
			return err
		}
		switch before := store.SumUs(calendar.DayOfDate(ended)) < b.from; {
		case before && tsUs >= b.from:
			*sum += amount
		case !before && tsUs < b.from:
			*sum -= amount
			*after = min(*after, number-1)
		}
		return nil
	}, `SELECT p.no, e.ts_us, l.ended, l.amount FROM usage_late l JOIN entry e ON e.id = l.entry
		JOIN posting p ON p.entry = l.entry AND p.book = 'customer' AND p.account = l.account AND p.currency = l.currency
		WHERE l.account = $1 AND l.currency = $2 AND (l.ended < $3 AND e.ts_us >= $4 OR l.ended >= $3 AND e.ts_us < $4)`,
		b.account, int64(money.SpendOrder[b.place]), from, b.from)
}
